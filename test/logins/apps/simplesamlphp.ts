// SimpleSAMLphp from Debian: a site sends its users to an identity provider on another domain, which returns them by a form that submits itself.
import { mkdirSync, readFileSync, symlinkSync } from 'node:fs'
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { randomPassword, withFront, type LoginApp } from '../app.ts'
import { copyFromTree, removePhpSessions, startPhp } from '../php.ts'
import { inTree, runProgram, scratchFolder, writeFiles } from '../program.ts'

const SITE = 'library.saml-site.test'
const PROVIDER = 'login.saml-provider.test'

export async function startSimpleSamlPhp(): Promise<LoginApp> {
  await using scope = new AsyncDisposableStack()
  const user = { username: 'ann', password: randomPassword() }
  const folders: string[] = []
  const prepare = (name: string, host: string, more: string): string => {
    const { dir } = scope.use(scratchFolder(name))
    folders.push(dir)
    copyFromTree(dir, 'etc/simplesamlphp', 'config')
    for (const made of ['www', 'data', 'log', 'cert']) mkdirSync(join(dir, made))
    symlinkSync('/usr/share/simplesamlphp/www', join(dir, 'www/simplesaml'))
    writeFiles(dir, {
      // Debian's configuration includes this file.
      'data/secrets.inc.php': '<?php',
      'config/config.php': `<?php
require '/etc/simplesamlphp/config.php';
$config = array_merge($config, [
  'baseurlpath' => 'http://${host}/simplesaml/', 'secretsalt' => '${randomBytes(16).toString('hex')}', 'auth.adminpassword' => '${randomBytes(16).toString('hex')}',
  'certdir' => '/app/cert/', 'datadir' => '/app/data/', 'loggingdir' => '/app/log/', 'tempdir' => '/tmp/simplesaml', 'metadatadir' => '/app/metadata',
  'metadata.sources' => [['type' => 'flatfile', 'directory' => '/app/metadata']],
  'logging.handler' => 'errorlog', 'store.type' => 'phpsession', 'session.cookie.secure' => false, 'session.phpsession.savepath' => null, 'session.phpsession.cookiename' => 'SAMLSESSION',
  // Behind a proxy, visitors use another port than the one on which PHP listens.
  'application' => ['baseURL' => 'http://${host}/'],
  'session.cookie.samesite' => null, 'timezone' => 'UTC', 'trusted.url.domains' => [], ${more}
]);
`,
    })
    return dir
  }
  const identity = prepare(
    'saml-provider',
    PROVIDER,
    `'enable.saml20-idp' => true, 'module.enable' => ['exampleauth' => true, 'core' => true, 'saml' => true],`,
  )
  const library = prepare('saml-site', SITE, '')
  const key = `openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=${PROVIDER} -keyout /app/cert/key.pem -out /app/cert/cert.pem`
  await runProgram(inTree(identity, {}, key.split(' ')), { cwd: identity })
  const certificate = readFileSync(join(identity, 'cert/cert.pem'), 'utf8').replaceAll(/-----[^-]+-----|\s/g, '')
  const issuer = `http://${PROVIDER}/simplesaml/saml2/idp/metadata.php`
  writeFiles(identity, {
    'config/authsources.php': `<?php $config = ['people' => ['exampleauth:UserPass', '${user.username}:${user.password}' => ['uid' => ['${user.username}']]]];`,
    'metadata/saml20-idp-hosted.php': `<?php $metadata['${issuer}'] = ['host' => '__DEFAULT__', 'privatekey' => 'key.pem', 'certificate' => 'cert.pem', 'auth' => 'people'];`,
    'metadata/saml20-sp-remote.php': `<?php $metadata['http://${SITE}/'] = ['AssertionConsumerService' => 'http://${SITE}/simplesaml/module.php/saml/sp/saml2-acs.php/site'];`,
  })
  writeFiles(library, {
    'config/authsources.php': `<?php $config = ['site' => ['saml:SP', 'entityID' => 'http://${SITE}/', 'idp' => '${issuer}']];`,
    'metadata/saml20-idp-remote.php': `<?php $metadata['${issuer}'] = ['SingleSignOnService' => 'http://${PROVIDER}/simplesaml/saml2/idp/SSOService.php', 'certData' => '${certificate}'];`,
    'www/index.php': `<?php
require '/usr/share/simplesamlphp/lib/_autoload.php';
$login = new SimpleSAML\\Auth\\Simple('site');
$login->requireAuth();
$name = $login->getAttributes()['uid'][0];
SimpleSAML\\Session::getSessionFromRequest()->cleanup();
echo '<!doctype html><title>The library</title><h1>Books of ' . htmlspecialchars($name) . '</h1><a href="' . htmlspecialchars($login->getLogoutURL()) . '">Log out</a>';
`,
  })
  const binds = { '/var/lib/simplesamlphp': 'data' }
  const env = { SIMPLESAMLPHP_CONFIG_DIR: '/app/config' }
  const provider = scope.use(await startPhp({ dir: identity, documentRoot: '/app/www', binds, env }))
  const site = scope.use(await startPhp({ dir: library, documentRoot: '/app/www', binds, env }))
  return await withFront({ [SITE]: site.port, [PROVIDER]: provider.port }, scope, {
    name: 'simplesamlphp',
    loginUrl: `http://${SITE}/`,
    homeUrl: `http://${SITE}/`,
    user,
    endSessions: async () => folders.forEach(removePhpSessions),
    proof: { url: `http://${SITE}/`, text: /Books of ann/ },
  })
}
