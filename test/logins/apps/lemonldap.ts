// LemonLDAP::NG from Debian: a portal that offers a choice of second factors (an authenticator, or a code by mail), and keeps people logged in on trusted devices.
import { createHash } from 'node:crypto'
import { mkdirSync, readFileSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { LOGINS_DIR, randomPassword, randomTotpSecret, withFront, type LoginApp } from '../app.ts'
import { startMailSink } from '../mail.ts'
import { inTree, scratchFolder, startProgram, writeFiles } from '../program.ts'

const HOST = 'auth.lemon-app.test'

export interface LemonApp extends LoginApp {
  /** The newest code that was sent by mail, or undefined before the first. */
  mailCode(): string | undefined
}

export async function startLemonLdap(): Promise<LemonApp> {
  await using scope = new AsyncDisposableStack()
  const { dir } = scope.use(scratchFolder('lemonldap'))
  const user = { username: 'dwho', password: randomPassword(), totpSecret: randomTotpSecret() }
  const mail = scope.use(await startMailSink())
  for (const name of ['sessions/lock', 'psessions/lock', 'cache', 'notifications', 'captcha']) mkdirSync(join(dir, name), { recursive: true })
  const defaults = JSON.parse(readFileSync(join(LOGINS_DIR, 'debian/var/lib/lemonldap-ng/conf/lmConf-1.json'), 'utf8')) as Record<string, unknown>
  const id = createHash('md5').update(user.username).digest('hex')
  writeFiles(dir, {
    'conf/lmConf-1.json': JSON.stringify({
      ...defaults,
      portal: `http://${HOST}/`,
      domain: 'lemon-app.test',
      key: randomPassword(),
      applicationList: { '1notes': { type: 'category', catname: 'Notes of the Doctor' } },
      locationRules: { [HOST]: { default: 'accept' } },
      exportedHeaders: {},
      globalStorageOptions: { ...(defaults.globalStorageOptions as object), Directory: '/app/sessions', LockDirectory: '/app/sessions/lock' },
      persistentStorageOptions: { Directory: '/app/psessions', LockDirectory: '/app/psessions/lock' },
      localSessionStorage: '',
      localSessionStorageOptions: {},
      notification: 0,
      // LemonLDAP's own captcha needs ImageMagick, and is loaded even when no page has a captcha.
      captcha: '::Captcha::None',
      captcha_login_enabled: 0,
      captcha_mail_enabled: 0,
      captcha_register_enabled: 0,
      portalDisplayRegister: 0,
      portalDisplayResetPassword: 0,
      totp2fActivation: 'has2f("TOTP")',
      mail2fActivation: 1,
      SMTPServer: '127.0.0.1',
      SMTPPort: mail.port,
      mailFrom: 'portal@lemon-app.test',
      stayConnected: 1,
    }),
    'lemonldap-ng.ini': `[all]
logLevel = warn
checkTime = 1
[configuration]
type = File
dirName = /app/conf
[portal]
staticPrefix = /static
templateDir = /usr/share/lemonldap-ng/portal/templates
languages = en
`,
    [`psessions/${id}`]: JSON.stringify({
      _session_id: id,
      _session_kind: 'Persistent',
      _session_uid: user.username,
      _utime: Math.floor(Date.now() / 1000),
      _2fDevices: JSON.stringify([{ type: 'TOTP', name: 'Phone', _secret: user.totpSecret.toLowerCase(), epoch: String(Math.floor(Date.now() / 1000)) }]),
    }),
    // In LemonLDAP's demonstration accounts the password is the name. Replace only this comparison.
    'portal.psgi': `
use Plack::Builder;
BEGIN {
  package Lemonldap::NG::Portal::Captcha::None;
  use Mouse;
  extends 'Lemonldap::NG::Portal::Main::Plugin';
  sub init { 1 }
  $INC{'Lemonldap/NG/Portal/Captcha/None.pm'} = 1;
}
use Lemonldap::NG::Portal::Main;
use Lemonldap::NG::Portal::Auth::Demo;
use Lemonldap::NG::Portal::Main::Constants qw(PE_OK PE_BADCREDENTIALS);
{
  no warnings 'redefine';
  *Lemonldap::NG::Portal::Auth::Demo::authenticate = sub {
    my ($self, $req) = @_;
    return PE_OK if $req->{user} eq '${user.username}' and $req->data->{password} eq '${user.password}';
    $self->setSecurity($req);
    return PE_BADCREDENTIALS;
  };
}
builder {
  enable 'Plack::Middleware::Static', path => sub { s!^/static/!! }, root => '/usr/share/lemonldap-ng/portal/htdocs/static/';
  enable 'Plack::Middleware::Static', path => sub { s!^/javascript/!! }, root => '/usr/share/javascript/';
  Lemonldap::NG::Portal::Main->run({});
};
`,
  })
  const command = (port: number) => [
    'perl',
    '/usr/bin/plackup',
    '--env',
    'deployment',
    '--server',
    'HTTP::Server::PSGI',
    '--host',
    '127.0.0.1',
    '--port',
    String(port),
    '/app/portal.psgi',
  ]
  const server = scope.use(
    await startProgram({ command: (port) => inTree(dir, {}, command(port)), cwd: dir, env: { LLNG_DEFAULTCONFFILE: '/app/lemonldap-ng.ini' } }),
  )
  return await withFront({ [HOST]: server.port }, scope, {
    name: 'lemonldap',
    loginUrl: `http://${HOST}/`,
    homeUrl: `http://${HOST}/`,
    user,
    async endSessions() {
      for (const entry of readdirSync(join(dir, 'sessions'), { withFileTypes: true })) if (entry.isFile()) rmSync(join(dir, 'sessions', entry.name))
      // The records of trusted devices.
      for (const entry of readdirSync(join(dir, 'psessions'), { withFileTypes: true }))
        if (entry.isFile() && entry.name !== id) rmSync(join(dir, 'psessions', entry.name))
      await server.restart()
    },
    proof: { url: `http://${HOST}/`, text: /Logged in as|Connected as|Your applications/i },
    mailCode: () =>
      mail.messages
        .at(-1)
        ?.match(/\b\d{6}\b/g)
        ?.at(-1),
  })
}
