// Reads password stores that other programs made: KeePass files from keepassxc-cli, password stores from pass and gpg, Bitwarden exports that Python encrypted. The
// values read are those that were stored. KeePass and pass are read by the example programs of the documentation.
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PACKAGE_DIR } from '../../src/base/paths.ts'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { until } from '../../src/base/wait.ts'
import type { Backend } from '../../src/control/logins/credential-providers/backends/backend.ts'
import { BackendProblem } from '../../src/control/logins/credential-providers/backends/backend.ts'
import { bitwardenExportBackend } from '../../src/control/logins/credential-providers/backends/bitwarden-export.ts'
import { commandBackend } from '../../src/control/logins/credential-providers/backends/command.ts'
import { credentialFiles, type CredentialFiles } from '../../src/control/logins/credential-providers/backends/files.ts'
import { makeKeePass, makePass, run } from '../support/password-stores.ts'

const SOON_MS = 20_000
const never = new AbortController().signal
let dir: string
let files: CredentialFiles
beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), 'cob-stores-'))
  files = credentialFiles(dir)
})
afterAll(() => rmSync(dir, { recursive: true }))

async function read(backend: Backend, title: string) {
  const item = (await backend.listItems(never)).find((one) => one.title === title)
  if (!item) throw new Error(`no item "${title}"`)
  return backend.resolve(item, never)
}
const problem = (work: Promise<unknown>): Promise<string> =>
  work.then(
    () => 'none',
    (error: unknown) => {
      if (error instanceof BackendProblem) return error.message
      throw error
    },
  )

/** Installs the documentation's example program of this name in the folder of credential files. */
function example(name: string): void {
  const page = readFileSync(join(PACKAGE_DIR, 'docs/credential-providers.md'), 'utf8')
  const program = page.split(`\n\`\`\`python ${name}\n`)[1]?.split('\n```\n')[0]
  if (program === undefined) throw new Error(`the page has no program ${name}`)
  writeFileSync(join(dir, name), program, { mode: 0o755 })
}
const command = (program: string, secret?: string) => commandBackend(JSON.stringify({ program, ...(secret !== undefined && { secret }) }), files)

test("a KeePass file is read by the documentation's program, by groups, without the recycle bin, as its entries are now", async () => {
  example('keepassxc')
  const store = makeKeePass(dir, { name: 'team.kdbx', password: 'pässword ✓' })
  store.cli('mkdir', ['Work'])
  store.cli('mkdir', ['Work/Deep'])
  store.cli('add', ['-u', 'kim', '--url', 'https://site.test/login', '-p', 'Work/Site'], 'sécret & <1>\n')
  store.cli('add', ['-u', 'lee@example.com', '-p', 'Work/Deep/Other'], 'third, "quoted"\n')
  store.cli('add', ['-u', 'root', '-p', 'At the root'], 'fourth\n')
  store.cli('add', ['-u', 'gone', '-p', 'Gone'], 'fifth\n')
  store.cli('rm', ['Gone'])
  const backend = command('keepassxc', 'pässword ✓')
  expect((await backend.listItems(never)).map(({ title, vault, urls }) => [`${vault.name}/${title}`, urls]).toSorted()).toEqual([
    ['Store/At the root', []],
    ['Work/Deep/Other', []],
    ['Work/Site', ['https://site.test/login']],
  ])
  expect((await backend.test(never)).map(({ name }) => name).toSorted()).toEqual(['Store', 'Work', 'Work/Deep'])
  expect(await read(backend, 'Site')).toEqual({ values: { username: 'kim', password: 'sécret & <1>' }, totp: undefined, urls: ['https://site.test/login'] })
  expect(await read(backend, 'Other')).toMatchObject({ values: { username: 'lee@example.com', password: 'third, "quoted"' } })
  store.cli('edit', ['-p', 'Work/Site'], 'seventh\n')
  const [site] = (await backend.listItems(never)).filter(({ title }) => title === 'Site')
  expect(await backend.resolve(site!, never)).toMatchObject({ values: { password: 'seventh' } })
  store.cli('rm', ['Work/Site'])
  await expect(backend.resolve(site!, never)).rejects.toMatchObject({ isMissing: true })
  expect(await problem(command('keepassxc', 'wrong').test(never))).toMatch(/^the program ended with the status 1; run it by hand/)
})

test("a store of pass is read by the documentation's program, and no agent of gpg stays", async () => {
  example('pass-store')
  using store = makePass(dir, 'open ✓')
  store.insert('web/site.test', 'first\nuser: kim\nURL: https://login.site.test/in\notpauth://totp/x?secret=JBSWY3DPEHPK3PXP\n')
  store.insert('web/other.test/lee@example.com', 'pass word: 2\nlogin: lee\n')
  store.insert('bank', 'third\n')
  const backend = command('pass-store', 'open ✓')
  expect((await backend.listItems(never)).map(({ title, vault, urls }) => [`${vault.name}/${title}`, urls])).toEqual([
    ['Store/bank', []],
    ['web/other.test/lee@example.com', ['other.test']],
    ['web/site.test', ['site.test']],
  ])
  expect(await read(backend, 'site.test')).toEqual({
    values: { password: 'first', username: 'kim' },
    totp: 'otpauth://totp/x?secret=JBSWY3DPEHPK3PXP',
    urls: ['https://login.site.test/in', 'site.test'],
  })
  expect(await read(backend, 'lee@example.com')).toMatchObject({ values: { password: 'pass word: 2', username: 'lee' } })
  await until('the end of gpg', SOON_MS, () => programsWith(join(dir, 'gnupg')).length === 0)
  expect(await problem(read(command('pass-store', 'wrong'), 'site.test'))).toMatch(/^the program ended with the status 1/)
})

describe('a program', () => {
  const write = (name: string, text: string, mode = 0o755) => {
    writeFileSync(join(dir, name), `#!/bin/sh\n${text}\n`)
    chmodSync(join(dir, name), mode)
    return command(name, 'canary')
  }

  test('gets its secret on standard input only, and nothing of the environment of the service', async () => {
    process.env.CANARY_OF_SERVICE = 'of the service'
    const backend = write(
      'env',
      `read -r secret; env >${dir}/seen; tr '\\0' ' ' </proc/$$/cmdline >>${dir}/seen; printf '{"items":[{"id":"1","title":"%s"}]}' "$secret"`,
    )
    expect(await backend.listItems(never)).toEqual([{ id: '1', title: 'canary', vault: { id: '', name: 'Store' }, urls: [] }])
    delete process.env.CANARY_OF_SERVICE
    expect(readFileSync(join(dir, 'seen'), 'utf8')).not.toMatch(/canary|of the service/i)
  })

  test.each([
    ['that prints no JSON', 'echo CANARY', /^what the program prints is not JSON$/],
    ['that prints another form', `echo '{"items":[{"id":7}]}'`, /^the program prints another form than expected, at "items\.0\.id"$/],
    ['that fails', 'echo CANARY >&2; exit 3', /^the program ended with the status 3; /],
    ['that is killed', 'kill -9 $$', /^the program ended with the status of a signal; /],
    ['that prints too much', 'cat /dev/zero', /^the program prints more than 16777216 bytes, the limit$/],
    ['whose interpreter is missing', undefined, /^the program does not start \(ENOENT\)$/],
  ])('%s is told by the reason, without its words', async (_, text, reason) => {
    const backend = text === undefined ? (writeFileSync(join(dir, 'bytes'), '#!/nowhere\n', { mode: 0o755 }), command('bytes')) : write('wrong', text)
    const said = await problem(backend.test(never))
    expect(said).toMatch(reason)
    expect(said).not.toContain('CANARY')
  })

  test('leaves nothing of its process group, when it ends and when its caller goes away', async () => {
    const backend = write('leaves', `sleep 987 & echo '{"items":[]}'`)
    expect(await problem(backend.test(never))).toBe('none')
    await until('the end of what it left', SOON_MS, () => programsWith('sleep 987').length === 0)
    const caller = new AbortController()
    const reason = new Error('gone')
    const asked = write('waits', 'sleep 986').test(caller.signal)
    asked.catch(() => {})
    await until('it', SOON_MS, () => programsWith('sleep 986').length > 0, { everyMs: 5 })
    caller.abort(reason)
    await expect(asked).rejects.toBe(reason)
    await until('its end', SOON_MS, () => programsWith('sleep 986').length === 0)
  })

  test('is run from the folder of credential files only, and when no other user may change it', async () => {
    symlinkSync('/bin', join(dir, 'bin'))
    expect(await problem(command('bin/true').test(never))).toMatch(/^there is no "bin\/true" in the folder/)
    expect(await problem(command('/bin/true').test(never))).toMatch(/^there is no/)
    expect(await problem(command('.').test(never))).toMatch(/^there is no/)
    expect(() => command('../true')).toThrow('must be a path without ".."')
    expect(await problem(write('open', 'true', 0o775).test(never))).toMatch(/^other users of the machine may change the program "open"/)
    expect(await problem(write('plain', 'true', 0o644).test(never))).toBe('the service may not run the program "plain"')
  })
})

describe('an export of Bitwarden', () => {
  const EXPORT = JSON.stringify({
    encrypted: false,
    folders: [{ id: 'f1', name: 'Work' }],
    items: [
      {
        id: 'i1',
        type: 1,
        name: 'Site',
        folderId: 'f1',
        login: { username: 'kim', password: 'one ✓', totp: 'JBSWY3DPEHPK3PXP', uris: [{ match: null, uri: 'https://site.test' }] },
        fields: [{ name: 'company_id', value: 'C-7', type: 0 }],
      },
      { id: 'i2', type: 2, name: 'Note', folderId: null, notes: 'no login' },
    ],
  })
  const write = (name: string, text: string) => writeFileSync(join(dir, name), text, { mode: 0o600 })
  const open = (token: object) => bitwardenExportBackend(JSON.stringify(token), files)

  test.each(['pbkdf2', 'argon2id'])('that a password protects by %s is read with it, and not with another one', async (kdf) => {
    const sealed = run('/usr/bin/python3', [join(PACKAGE_DIR, 'test/data/python/bitwarden_export.py')], {
      input: JSON.stringify({ text: EXPORT, password: 'öffnen', kdf }),
    })
    write('sealed.json', sealed)
    const backend = open({ file: 'sealed.json', password: 'öffnen' })
    expect(await backend.listItems(never)).toEqual([{ id: 'i1', title: 'Site', vault: { id: 'f1', name: 'Work' }, urls: ['https://site.test'] }])
    expect(await read(backend, 'Site')).toEqual({
      values: { company_id: 'C-7', username: 'kim', password: 'one ✓' },
      totp: 'JBSWY3DPEHPK3PXP',
      urls: ['https://site.test'],
    })
    expect(await problem(open({ file: 'sealed.json', password: 'wrong' }).test(never))).toBe('the password of the export is wrong')
    expect(await problem(open({ file: 'sealed.json' }).test(never))).toBe('the export is protected with a password, and the token has none')
    const expensive = { ...(JSON.parse(sealed) as object), kdfIterations: 3_000_000 }
    write('sealed.json', JSON.stringify(expensive))
    expect(await problem(backend.test(never))).toMatch(/^(the export asks for more|opening the export takes too much)/)
  })

  test('that nothing protects is read if nobody else can read the file; one that only its account opens is refused', async () => {
    write('plain.json', EXPORT)
    expect((await open({ file: 'plain.json' }).test(never)).map(({ name }) => name)).toEqual(['Work', 'No Folder'])
    chmodSync(join(dir, 'plain.json'), 0o644)
    expect(await problem(open({ file: 'plain.json' }).test(never))).toMatch(/its mode must be 0600$/)
    write('account.json', JSON.stringify({ encrypted: true, encKeyValidation_DO_NOT_EDIT: '2.a|b|c', folders: [], items: [] }))
    expect(await problem(open({ file: 'account.json' }).test(never))).toMatch(/only its account can open/)
  })
})

/** The command lines of running programs that contain `text`. */
const programsWith = (text: string): string[] =>
  readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map((pid) => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ')
      } catch {
        return '' // it has ended
      }
    })
    .filter((line) => line.includes(text))
