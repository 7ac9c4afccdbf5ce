// Password stores that other programs have made: KeePass files by keepassxc-cli, password stores by pass and gpg, exports of Bitwarden sealed by Python. What is read is what was put in.
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PACKAGE_DIR } from '../../src/base/paths.ts'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { sleep, until } from '../../src/base/wait.ts'
import type { Backend } from '../../src/control/logins/credential-providers/backends/backend.ts'
import { BackendProblem } from '../../src/control/logins/credential-providers/backends/backend.ts'
import { bitwardenExportBackend } from '../../src/control/logins/credential-providers/backends/bitwarden-export.ts'
import { credentialFiles, type CredentialFiles } from '../../src/control/logins/credential-providers/backends/files.ts'
import { keepassBackend } from '../../src/control/logins/credential-providers/backends/keepass.ts'
import { passBackend } from '../../src/control/logins/credential-providers/backends/pass.ts'
import { makeKeePass, makeOldKeePass, makePass, run, type KeePass, type PassStore } from '../support/password-stores.ts'

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

const FIELDS: Parameters<typeof makeKeePass>[1]['entries'] = [
  {
    title: 'custom',
    username: 'kim',
    password: 'one',
    url: 'https://one.test',
    fields: { KP2A_URL: 'https://two.test/login', KP2A_URL_1: '*.three.test', company_id: 'C-7', Notes: 'no value' },
  },
  {
    title: 'keepass totp',
    fields: { 'TimeOtp-Secret-Base32': 'JBSW Y3DP EHPK 3PXP', 'TimeOtp-Period': '60', 'TimeOtp-Length': '8', 'TimeOtp-Algorithm': 'HMAC-SHA-256' },
  },
  { title: 'keepass totp as text', fields: { 'TimeOtp-Secret': 'Hello!' } },
  { title: 'plug-in totp', fields: { 'TOTP Seed': 'JBSWY3DPEHPK3PXP', 'TOTP Settings': '30;8' } },
  { title: 'steps', fields: { otp: 'key=JBSWY3DPEHPK3PXP&step=60&size=8' } },
  { title: 'uri', fields: { otp: 'otpauth://totp/a:b?secret=JBSWY3DPEHPK3PXP' } },
  { title: 'refers', username: 'kim', password: '{REF:P@I:AAAAAAAAAAAAAAAAAAAAAA}' },
]

describe('a KeePass file', () => {
  let store: KeePass
  const open = (token: object) => keepassBackend(JSON.stringify(token), files)
  beforeAll(() => {
    store = makeKeePass(dir, { name: 'main.kdbx', password: 'pässword ✓' })
    store.cli('mkdir', ['Work'])
    store.cli('mkdir', ['Work/Deep'])
    store.cli('add', ['-u', 'kim', '--url', 'https://site.test/login', '-p', 'Work/Site'], 'sécret & <1>\n')
    store.cli('edit', ['-p', 'Work/Site'], 'second\n')
    store.cli('add', ['-u', 'lee@example.com', '-p', 'Work/Deep/Other'], 'third\n')
    store.cli('add', ['-u', 'root', '-p', 'At the root'], 'fourth\n')
    store.cli('add', ['-u', 'gone', '-p', 'Gone'], 'fifth\n')
    store.cli('rm', ['Gone'])
  })

  test('shows its entries by their groups, without those in the recycle bin', async () => {
    const backend = open({ file: 'main.kdbx', password: 'pässword ✓' })
    const items = await backend.listItems(never)
    expect(items.map(({ title, vault, urls }) => [`${vault.name}/${title}`, urls]).toSorted()).toEqual([
      ['Root/At the root', []],
      ['Work/Deep/Other', []],
      ['Work/Site', ['https://site.test/login']],
    ])
    expect((await backend.test(never)).map(({ name }) => name).toSorted()).toEqual(['Root', 'Work', 'Work/Deep'])
  })

  test('gives the values that an entry has now, not those of its history', async () => {
    const backend = open({ file: 'main.kdbx', password: 'pässword ✓' })
    expect(await read(backend, 'Site')).toEqual({ values: { username: 'kim', password: 'second' }, totp: undefined, urls: ['https://site.test/login'] })
    // Each protected value takes its part of one stream: this one comes after a history.
    expect(await read(backend, 'Other')).toMatchObject({ values: { username: 'lee@example.com', password: 'third' } })
    store.cli('edit', ['-p', 'Work/Site'], 'seventh\n')
    expect(await read(backend, 'Site')).toMatchObject({ values: { password: 'seventh' } })
  })

  test('is not opened with a wrong password, and says so without it', async () => {
    expect(await problem(open({ file: 'main.kdbx', password: 'wrong' }).test(never))).toBe('the password or the key file of the KeePass file is wrong')
  })

  test('is opened with a key file, alone and together with a password', async () => {
    const keyfile = join(dir, 'key.keyx')
    // KeePassXC makes the key file with the database, in the second version of its form.
    run('keepassxc-cli', ['db-create', '--set-key-file', keyfile, '-t', '100', join(dir, 'unused.kdbx')])
    makeKeePass(dir, { name: 'key.kdbx', keyfile, entries: [{ title: 'Entry', username: 'kim' }] })
    expect(await read(open({ file: 'key.kdbx', keyfile: 'key.keyx' }), 'Entry')).toMatchObject({ values: { username: 'kim' } })
    makeKeePass(dir, { name: 'both.kdbx', keyfile, password: 'x' })
    expect(await open({ file: 'both.kdbx', keyfile: 'key.keyx', password: 'x' }).test(never)).toEqual([])
    expect(await problem(open({ file: 'both.kdbx', password: 'x' }).test(never))).toMatch(/key file .* is wrong/)
    for (const [name, bytes] of [
      ['raw.key', Buffer.alloc(32, 7)],
      ['hex.key', Buffer.from('ab'.repeat(32))],
      ['any.key', Buffer.from('any other file')],
    ] as const) {
      writeFileSync(join(dir, name), bytes)
      makeKeePass(dir, { name: `${name}.kdbx`, keyfile: join(dir, name) })
      expect([name, await open({ file: `${name}.kdbx`, keyfile: name }).test(never)]).toEqual([name, []])
    }
  })

  test('is read with ChaCha20 as well, and with the AES derivation, and refused in the form before KDBX 4', async () => {
    makeKeePass(dir, { name: 'chacha.kdbx', password: 'x', cipher: 'chacha20', entries: [{ title: 'a', password: 'b' }] })
    expect(await read(open({ file: 'chacha.kdbx', password: 'x' }), 'a')).toMatchObject({ values: { password: 'b' } })
    const old = makeOldKeePass(dir, { name: 'old.kdbx', password: 'x' })
    old.cli('add', ['-u', 'kim', 'Kept'])
    old.cli('add', ['-u', 'kim', 'Gone'])
    expect(await problem(open({ file: 'old.kdbx', password: 'x' }).test(never))).toMatch(/version 3 of its format.* save it as KDBX 4/)
    // An entry in the recycle bin remembers where it was, which the old form cannot.
    old.cli('rm', ['Gone'])
    expect(await read(open({ file: 'old.kdbx', password: 'x' }), 'Kept')).toMatchObject({ values: { username: 'kim' } })
  })

  test('has one-time passwords in all the forms in which programs keep them, further URLs, and fields of its own', async () => {
    makeKeePass(dir, { name: 'fields.kdbx', password: 'x', entries: FIELDS })
    const backend = open({ file: 'fields.kdbx', password: 'x' })
    expect(await read(backend, 'custom')).toEqual({
      values: { username: 'kim', password: 'one', company_id: 'C-7' },
      totp: undefined,
      urls: expect.arrayContaining(['https://one.test', 'https://two.test/login', '*.three.test']),
    })
    const totp = async (title: string) => (await read(backend, title)).totp
    expect(await totp('keepass totp')).toBe('otpauth://totp/item?secret=JBSWY3DPEHPK3PXP&period=60&digits=8&algorithm=SHA256')
    expect(await totp('keepass totp as text')).toBe('JBSWY3DPEE')
    expect(await totp('plug-in totp')).toBe('otpauth://totp/item?secret=JBSWY3DPEHPK3PXP&period=30&digits=8')
    expect(await totp('steps')).toBe('otpauth://totp/item?secret=JBSWY3DPEHPK3PXP&period=60&digits=8')
    expect(await totp('uri')).toBe('otpauth://totp/a:b?secret=JBSWY3DPEHPK3PXP')
    expect(await problem(read(backend, 'refers'))).toBe('the entry has a reference to another entry in it, which is not followed')
  })

  test('with damaged bytes anywhere is refused, and nothing of it is believed', async () => {
    const whole = readFileSync(store.file)
    for (let at = 0; at < whole.length; at += Math.ceil(whole.length / 12)) {
      const bytes = Buffer.from(whole)
      bytes[at]! ^= 0x41
      writeFileSync(join(dir, 'damaged.kdbx'), bytes)
      expect([at, await problem(open({ file: 'damaged.kdbx', password: 'pässword ✓' }).listItems(never))]).toEqual([at, expect.stringMatching(/KeePass/)])
    }
    for (const length of [0, 4, 100, whole.length - 1]) {
      writeFileSync(join(dir, 'damaged.kdbx'), whole.subarray(0, length))
      expect(await problem(open({ file: 'damaged.kdbx', password: 'pässword ✓' }).test(never))).toMatch(/damaged/)
    }
  })

  test('is found below the folder of credential files only', async () => {
    symlinkSync('/etc', join(dir, 'link'))
    symlinkSync(store.file, join(dir, 'inside-link.kdbx'))
    expect(await problem(open({ file: 'link/passwd', password: 'x' }).test(never))).toMatch(/^there is no "link\/passwd" in the folder/)
    expect(await problem(open({ file: '/etc/passwd', password: 'x' }).test(never))).toMatch(/^there is no/)
    expect(await problem(open({ file: '.', password: 'x' }).test(never))).toMatch(/^there is no/)
    expect(() => open({ file: '../x.kdbx', password: 'x' })).toThrow('must be a path without ".."')
    expect(await open({ file: 'inside-link.kdbx', password: 'pässword ✓' }).listItems(never)).toHaveLength(3)
  })
})

describe('a password store of pass', () => {
  let store: PassStore
  const open = (more: object = {}) => passBackend(JSON.stringify({ dir: 'store', gnupg: 'gnupg', passphrase: 'open ✓', ...more }), files)
  beforeAll(() => {
    store = makePass(dir, 'open ✓')
    store.insert('web/site.test', 'first\nuser: kim\nURL: https://login.site.test/in\notpauth://totp/x?secret=JBSWY3DPEHPK3PXP\n')
    store.insert('web/other.test/lee@example.com', 'pass word: 2\nlogin: lee\ncompany_id: C-7\nNotes without a colon\n')
    store.insert('bank', 'third\nurl: bank.test\n')
    mkdirSync(join(dir, 'store/.git'))
    writeFileSync(join(dir, 'store/.git/x.gpg'), '')
  })
  afterAll(() => store[Symbol.dispose]())

  test('shows its entries, with the hosts that are in their names', async () => {
    const items = await open().listItems(never)
    expect(items.map(({ title, vault, urls }) => [`${vault.name}/${title}`, urls])).toEqual([
      ['Store/bank', []],
      ['web/other.test/lee@example.com', ['other.test', 'example.com']],
      ['web/site.test', ['site.test']],
    ])
    expect((await open().test(never)).map(({ name }) => name)).toEqual(['Store', 'web/other.test', 'web'])
  })

  test('with read_urls has the URLs that are written in entries as well', async () => {
    expect((await open({ read_urls: true }).listItems(never)).map(({ urls }) => urls)).toEqual([
      ['bank.test'],
      ['other.test', 'example.com'],
      ['https://login.site.test/in', 'site.test'],
    ])
  })

  test('gives password, names and one-time password of an entry', async () => {
    expect(await read(open(), 'site.test')).toEqual({
      values: { password: 'first', username: 'kim' },
      totp: 'otpauth://totp/x?secret=JBSWY3DPEHPK3PXP',
      urls: ['https://login.site.test/in', 'site.test'],
    })
    expect(await read(open(), 'lee@example.com')).toMatchObject({ values: { password: 'pass word: 2', username: 'lee', company_id: 'C-7' } })
  })

  test('is not opened with a wrong passphrase, also after the right one, and no agent of gpg stays', async () => {
    expect(await open().test(never)).toHaveLength(3)
    expect(await problem(open({ passphrase: 'wrong' }).test(never))).toBe('the passphrase is wrong, or the GnuPG home has no key that decrypts the entry')
    expect(await problem(open({ passphrase: undefined }).test(never))).toBe('the passphrase is wrong, or the GnuPG home has no key that decrypts the entry')
    expect(await problem(open({ gnupg: 'store' }).test(never))).toBe('the GnuPG home has no secret keys (private-keys-v1.d)')
    await until('the end of gpg', SOON_MS, () => agentsIn('/home/gpg').length === 0)
    expect(readdirSync(join(dir, 'gnupg')).toSorted()).toEqual(['private-keys-v1.d', 'pubring.kbx'])
  })

  test('leaves no program when its caller goes away while it runs', async () => {
    // At each of its steps, also while the sandbox starts.
    for (const ms of [0, 2, 5, 10, 20, 40, 80]) {
      const caller = new AbortController()
      const reason = new Error('gone')
      const asked = open().test(caller.signal)
      asked.catch(() => {})
      await until('gpg', SOON_MS, () => agentsIn('/home/gpg').length > 0, { everyMs: 1 })
      await sleep(ms)
      caller.abort(reason)
      await asked.catch((error: unknown) => expect(error).toBe(reason))
    }
    await until('the end of gpg', SOON_MS, () => agentsIn('/home/gpg').length === 0)
  })

  test('with an entry that becomes large when it is decrypted is refused', async () => {
    store.compress('large', '0'.repeat(8 * 1024 * 1024))
    expect(await problem(read(open(), 'large'))).toBe('the entry has more than 262144 bytes, the limit')
    await until('the end of gpg', SOON_MS, () => agentsIn('/home/gpg').length === 0)
  })

  test('shows its passphrase to no list of processes', async () => {
    const asked = open().test(never)
    await until('gpg', SOON_MS, () => agentsIn('/home/gpg').length > 0, { everyMs: 1 })
    expect(agentsIn('open ✓')).toEqual([])
    await asked
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

/** The command lines of programs that have `text` in them. */
const agentsIn = (text: string): string[] =>
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
