// Settings that are refused at the start, each with its name in the error.
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { readConfig } from './config.ts'
import { isKnown } from './setting-names.ts'

test.each(['COB_PUBLIC_URL', 'COB_GIT_BASE'])('%s is an origin; whatever would be left out of it is refused', (name) => {
  for (const text of [
    'https://user:secret@example.org',
    'https://user@example.org',
    'https://example.org/path',
    'https://example.org/?a',
    'ftp://example.org',
    'x',
  ])
    expect(() => readConfig({ [name]: text })).toThrow(new RegExp(`^${name}: must be an http or https origin`))
  expect(JSON.stringify(readConfig({ [name]: 'https://example.org:8443' }))).toContain('"https://example.org:8443"')
})

test('the most warm browsers are not fewer than the least, and none are kept without a least', () => {
  expect([{}, { COB_WARM_BROWSERS: '0' }, { COB_WARM_BROWSERS_MAX: '8' }].map((env) => readConfig(env).warmBrowsersMax)).toEqual([undefined, 0, 8])
  expect(() => readConfig({ COB_WARM_BROWSERS: '3', COB_WARM_BROWSERS_MAX: '2' })).toThrow(/^COB_WARM_BROWSERS_MAX: must not be less than/)
  expect(() => readConfig({ COB_WARM_BROWSERS: '0', COB_WARM_BROWSERS_MAX: '2' })).toThrow(/^COB_WARM_BROWSERS_MAX: must be 0 or not set/)
})

test('headless sessions are lean by themselves where the driver can start such browsers; another value names the three that exist', () => {
  expect([{}, { COB_HEADLESS: 'full' }, { COB_HEADLESS: 'lean' }, { COB_DRIVER: 'docker' }].map((env) => readConfig(env).headless)).toEqual([
    'auto',
    'full',
    'lean',
    'full',
  ])
  expect(() => readConfig({ COB_HEADLESS: 'new' })).toThrow(/^COB_HEADLESS: must be .*full.*auto.*lean/)
  for (const value of ['auto', 'lean']) expect(() => readConfig({ COB_DRIVER: 'docker', COB_HEADLESS: value })).toThrow(/^COB_HEADLESS: must be full/)
})

const S3 = {
  COB_S3_BUCKET: 'films',
  COB_S3_ENDPOINT: 'https://s3.example.org',
  COB_S3_ACCESS_KEY_ID: 'one',
  COB_S3_SECRET_ACCESS_KEY: 'two',
}

test('a bucket is used with all of its settings, or none', () => {
  expect(readConfig({}).s3).toBe(undefined)
  expect(readConfig(S3).s3).toEqual({
    bucket: 'films',
    endpoint: 'https://s3.example.org',
    region: 'us-east-1',
    accessKeyId: 'one',
    secretAccessKey: 'two',
    prefix: 'cob',
  })
  expect(readConfig({ ...S3, COB_S3_ENDPOINT: '', COB_S3_REGION: 'eu-west-1', COB_S3_PREFIX: 'a/b' }).s3).toMatchObject({
    endpoint: undefined,
    region: 'eu-west-1',
    prefix: 'a/b',
  })
})

test.each([
  ['COB_S3_BUCKET', ''],
  ['COB_S3_BUCKET', 's3://films'],
  ['COB_S3_ACCESS_KEY_ID', ''],
  ['COB_S3_SECRET_ACCESS_KEY', ''],
  ['COB_S3_SECRET_ACCESS_KEY', 'two\n'],
  ['COB_S3_ENDPOINT', 'https://s3.example.org/films'],
  ['COB_S3_PREFIX', '/a'],
  ['COB_S3_PREFIX', 'a/../b'],
])('%s=%j is refused by its name, and its value is not repeated', (name, value) => {
  const read = () => readConfig({ ...S3, [name]: value })
  expect(read).toThrow(new RegExp(`^${name}: must `))
  if (name === 'COB_S3_SECRET_ACCESS_KEY') expect(read).not.toThrow(/two/)
})

test('a bucket of Amazon needs its region', () => {
  expect(() => readConfig({ ...S3, COB_S3_ENDPOINT: '' })).toThrow(/^COB_S3_REGION: must be set too/)
})

const EXPORT = { COB_AUDIT_EXPORT_ACCESS_KEY_ID: 'one', COB_AUDIT_EXPORT_SECRET_ACCESS_KEY: 'two' }

test('the audit log is exported with both parts of a key, or not at all; never with the key of the object store', () => {
  expect([readConfig({}).auditExport, readConfig(S3).auditExport]).toEqual([undefined, undefined])
  expect(readConfig(EXPORT).auditExport).toEqual({
    accessKeyId: 'one',
    secretAccessKey: 'two',
    s3Endpoint: undefined,
    stsEndpoint: undefined,
    principalArn: '',
  })
  const more = {
    COB_AUDIT_EXPORT_S3_ENDPOINT: 'http://s3.test:9000',
    COB_AUDIT_EXPORT_STS_ENDPOINT: 'http://sts.test',
    COB_AUDIT_EXPORT_PRINCIPAL_ARN: 'arn:aws:iam::1:user/cob',
  }
  expect(readConfig({ ...EXPORT, ...more }).auditExport).toMatchObject({
    s3Endpoint: 'http://s3.test:9000',
    stsEndpoint: 'http://sts.test',
    principalArn: 'arn:aws:iam::1:user/cob',
  })
  for (const [name, value] of Object.entries(more)) expect(() => readConfig({ [name]: value })).toThrow(/^COB_AUDIT_EXPORT_ACCESS_KEY_ID: must be set too/)
})

test.each([
  ['COB_AUDIT_EXPORT_ACCESS_KEY_ID', ''],
  ['COB_AUDIT_EXPORT_SECRET_ACCESS_KEY', ''],
  ['COB_AUDIT_EXPORT_SECRET_ACCESS_KEY', 'CANARY\n'],
  ['COB_AUDIT_EXPORT_S3_ENDPOINT', 'https://s3.example.org/logs'],
  ['COB_AUDIT_EXPORT_STS_ENDPOINT', 'sts.example.org'],
  ['COB_AUDIT_EXPORT_PRINCIPAL_ARN', 'cob'],
  ['COB_AUDIT_EXPORT_SECONDS', '0'],
])('%s=%j is refused by its name, and its value is not shown', (name, value) => {
  const read = () => readConfig({ ...EXPORT, [name]: value })
  expect(read).toThrow(new RegExp(`^${name}: must `))
  expect(read).not.toThrow(/CANARY/)
})

test.each(['COB_PROXY_DATACENTER', 'COB_PROXY_ISP', 'COB_PROXY_RESIDENTIAL', 'COB_PROXY_MOBILE'])(
  '%s is refused by its name, and its value is not repeated',
  (name) => {
    const read = () => readConfig({ [name]: 'ftp://me:CANARY@proxy.example.org:1' })
    expect(read).toThrow(new RegExp(`^${name}: must be a URL`))
    expect(read).not.toThrow(/CANARY|proxy\.example\.org/)
    const { proxies } = readConfig({ [name]: 'http://me-{country}:secret@proxy.example.org:8080' })
    expect(Object.values(proxies).filter(Boolean)).toEqual([
      { protocol: 'http', host: 'proxy.example.org', port: 8080, username: 'me-{country}', password: 'secret' },
    ])
  },
)

test('COB_PROXY_CHECK_URL is a page, without a password', () => {
  expect(readConfig({ COB_PROXY_CHECK_URL: 'https://ip.example.org/?format=json' }).proxyCheckUrl).toBe('https://ip.example.org/?format=json')
  for (const text of ['ip.example.org', 'ftp://ip.example.org/', 'https://me:CANARY@ip.example.org/']) {
    expect(() => readConfig({ COB_PROXY_CHECK_URL: text })).toThrow(/^COB_PROXY_CHECK_URL: must be/)
    expect(() => readConfig({ COB_PROXY_CHECK_URL: text })).not.toThrow(/CANARY/)
  }
})

test('the address of the Chrome Web Store may have a path and a query, and nothing else', () => {
  expect(readConfig({}).chromeStoreUrl).toBe('https://clients2.google.com/service/update2/crx')
  expect(readConfig({ COB_CHROME_STORE_URL: 'http://mirror.example.org/update?a=1' }).chromeStoreUrl).toBe('http://mirror.example.org/update?a=1')
  for (const wrong of ['mirror.example.org', 'file:///etc/passwd', 'https://user:word@mirror.example.org/', 'https://mirror.example.org/#a'])
    expect(() => readConfig({ COB_CHROME_STORE_URL: wrong })).toThrow(/^COB_CHROME_STORE_URL: must be an http or https address/)
})

test('a model for login pages is off by default, and needs an address and a name', () => {
  expect(readConfig({}).loginModel).toBeUndefined()
  const url = 'http://127.0.0.1:11434/v1'
  expect(readConfig({ COB_LOGIN_MODEL_URL: url, COB_LOGIN_MODEL: 'small' }).loginModel).toEqual({ url, key: undefined, model: 'small' })
  expect(readConfig({ COB_LOGIN_MODEL_URL: url, COB_LOGIN_MODEL: 'small', COB_LOGIN_MODEL_KEY: 'k-1' }).loginModel?.key).toBe('k-1')
  expect(() => readConfig({ COB_LOGIN_MODEL_URL: url })).toThrow(/^COB_LOGIN_MODEL: must be set too/)
  expect(() => readConfig({ COB_LOGIN_MODEL_KEY: 'CANARY' })).toThrow(/^COB_LOGIN_MODEL_URL: must be set too, because COB_LOGIN_MODEL_KEY is set/)
  for (const wrong of [
    { COB_LOGIN_MODEL_URL: 'ftp://CANARY/' },
    { COB_LOGIN_MODEL_URL: url, COB_LOGIN_MODEL: 'a', COB_LOGIN_MODEL_KEY: 'CANARY with spaces' },
  ]) {
    expect(() => readConfig(wrong)).toThrow(/^COB_LOGIN_MODEL_(URL|KEY): must/)
    expect(() => readConfig(wrong)).not.toThrow(/CANARY/)
  }
})

test('settings of containers are addresses, and its network is open to nobody by default', () => {
  const of = (env: Record<string, string>) => readConfig({ HOME: '/home/someone', ...env })
  expect(of({})).toMatchObject({
    docker: { image: 'cob-instance', network: undefined, runtime: undefined, publish: undefined },
    containers: { resolvers: [], apiUrl: undefined, openNetworks: [], closedNetworks: [] },
  })
  expect(of({ COB_OPEN_NETWORKS: '10.1.0.0/16, fd00::/8', COB_CONTAINER_DNS: '10.0.0.2', COB_DOCKER_PUBLISH: '127.0.0.1' })).toMatchObject({
    containers: { openNetworks: ['10.1.0.0/16', 'fd00::/8'], resolvers: ['10.0.0.2'] },
    docker: { publish: '127.0.0.1' },
  })
  for (const [name, value] of [
    ['COB_OPEN_NETWORKS', 'all'],
    ['COB_CONTAINER_DNS', '10.0.0.0/8'],
    ['COB_DOCKER_PUBLISH', '127.0.0.1,127.0.0.2'],
    ['COB_SCOPE', 'Not-A-Name'],
    ['COB_CLOSED_NETWORKS', 'x'],
    ['COB_KUBERNETES_NAMESPACE', 'Not_A_Name'],
    ['COB_KUBERNETES_SECCOMP', '../escape.json'],
    ['COB_KUBERNETES_NODE_SELECTOR', 'disk'],
    ['COB_KUBERNETES_NODE_SELECTOR', 'a=b=c'],
    ['COB_KUBERNETES_HOST_ADDRESS', '10.0.0.0/8'],
    ['COB_KUBERNETES_CPU_REQUEST_PERCENT', '0'],
  ] as const)
    expect(() => of({ [name]: value }), name).toThrow(name)
  expect(of({ COB_KUBERNETES_NODE_SELECTOR: 'cob.dev/sessions=yes, disk=' }).kubernetes.nodeSelector).toEqual({ 'cob.dev/sessions': 'yes', disk: '' })
})

test.each([
  ['COB_HOSTT', 'COB_HOST'],
  ['COB_PROT', 'COB_PORT'],
  ['cob_port', 'COB_PORT'],
  ['COB_MAX_BROWSER', 'COB_MAX_BROWSERS'],
  ['COB_WARM_BROSWER', 'COB_WARM_BROWSERS'],
  ['COB_S3_ACCES_KEY', undefined],
  ['COB_S3_ACCESS_KEYID', 'COB_S3_ACCESS_KEY_ID'],
  ['COB_PROXY_RESIDENTAL', 'COB_PROXY_RESIDENTIAL'],
  ['COB_KUBERNETES_NODE_SELECTER', 'COB_KUBERNETES_NODE_SELECTOR'],
  ['COB_DATABASE_URL', 'DATABASE_URL'],
  ['COB_HOME', undefined],
  ['COB_NOTES', undefined],
])('%s is refused with the setting that it looks like: %s', (name, meant) => {
  const read = () => readConfig({ [name]: 'secret' })
  if (meant === undefined) expect(read().unknownSettings).toEqual([name])
  else expect(read).toThrow(new RegExp(`^${name}: there is no such setting; did you mean ${meant}\\?$`))
  expect(readConfig({ [name]: '' }).unknownSettings).toEqual([])
})

test('the name of each setting, and of what scripts, images, tests and the chart use, is known', () => {
  const root = join(import.meta.dirname, '../..')
  const read = (path: string): string[] => {
    const file = join(root, path)
    if (!statSync(file).isDirectory()) return [readFileSync(file, 'utf8')]
    return readdirSync(file, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile() && !entry.parentPath.includes('node_modules') && !entry.parentPath.includes('/dist') && entry.name !== 'config.test.ts')
      .map((entry) => readFileSync(join(entry.parentPath, entry.name), 'utf8'))
  }
  const texts = [
    'src',
    'bin',
    'script',
    'images',
    'charts',
    'compose.yaml',
    'docs',
    'README.md',
    'test',
    'bench',
    'vitest.config.ts',
    'web/vite.config.ts',
  ].flatMap(read)
  const names = new Set(texts.join('\n').match(/\bCOB_[A-Z0-9_]*[A-Z0-9]\b(?![_*…])/g)!)
  // Examples of misspelled names.
  for (const slip of ['COB_HOSTT', 'COB_MAX_BROWSER', 'COB_DATABASE_URL']) names.delete(slip)
  expect(names.size).toBeGreaterThan(100)
  expect([...names].filter((name) => !isKnown(name))).toEqual([])
})

test('what Kubernetes sets in a pod for a service of this name is not spoken of', () => {
  const set = { COB_SERVICE_HOST: '10.0.0.1', COB_SERVICE_PORT_HTTP: '2627', COB_PORT_2627_TCP_ADDR: '10.0.0.1' }
  expect(readConfig(set).unknownSettings).toEqual([])
})

test('a patch of pods says where they run and before whom, and is refused by name otherwise', () => {
  const of = (patch: unknown) => readConfig({ HOME: '/home/someone', COB_KUBERNETES_POD_PATCH: typeof patch === 'string' ? patch : JSON.stringify(patch) })
  expect(of({ spec: { tolerations: [{ operator: 'Exists' }] } }).kubernetes.podPatch).toEqual({ tolerations: [{ operator: 'Exists' }] })
  expect(of('').kubernetes.podPatch).toEqual({})
  for (const field of ['securityContext', 'hostNetwork', 'hostPID', 'hostIPC', 'volumes', 'containers', 'serviceAccountName', 'runtimeClassName'])
    expect(() => of({ spec: { [field]: {} } })).toThrow(new RegExp(`COB_KUBERNETES_POD_PATCH.*"spec.${field}" cannot be patched`))
  expect(() => of({ metadata: { labels: {} } })).toThrow(/"metadata" cannot be patched/)
  expect(() => of({ spec: { tolerations: {} } })).toThrow(/"spec.tolerations" must be a list/)
  expect(() => of({ spec: { affinity: [] } })).toThrow(/"spec.affinity" must be an object/)
  expect(() => of({ spec: { priorityClassName: 7 } })).toThrow(/"spec.priorityClassName" must be a text/)
  for (const wrong of ['{', '[]', '7', '{"spec":[]}']) expect(() => of(wrong)).toThrow(/COB_KUBERNETES_POD_PATCH/)
})
