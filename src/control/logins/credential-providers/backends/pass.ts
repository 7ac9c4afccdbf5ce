// The type `pass`: a password store of pass (passwordstore.org), a folder of files that GnuPG encrypts.
import { basename, dirname, join } from 'node:path'
import { z } from 'zod'
import { Slots } from '../../../../base/slots.ts'
import { BackendProblem, MOST_ITEMS, USER_NAMES, type Backend, type Item, type ItemValues, type Vault } from './backend.ts'
import type { CredentialFiles } from './files.ts'
import { decrypt } from './gpg.ts'
import { readOtp } from './otpauth.ts'
import { hostsIn } from './path-hosts.ts'
import { FilePath, jsonToken } from './token.ts'

const MAX_ENTRY = 256 * 1024
const ENDING = '.gpg'
/** Entries that are decrypted for the list, if it is to have what is written inside. Each takes a tenth of a second. */
const MOST_READ = 200
const READ_AT_ONCE = 4
const URL_NAMES = ['url', 'uri', 'website', 'link']

const Token = z.strictObject({
  dir: FilePath,
  /** A GnuPG home, below the folder of credential files as well. */
  gnupg: FilePath,
  passphrase: z
    .string()
    .max(1024)
    .refine((text) => !/[\r\n]/.test(text), 'must be one line')
    .optional(),
  /** The `url:` lines of entries count for look-ups too, not only their names. */
  read_urls: z.boolean().default(false),
})

export function passBackend(token: string, files: CredentialFiles): Backend {
  const { dir, gnupg, passphrase, read_urls: readUrls } = jsonToken(Token, token)

  async function read(id: string, signal: AbortSignal): Promise<ItemValues> {
    const message = await files.read(join(dir, id + ENDING), { maxBytes: MAX_ENTRY })
    const text = await decrypt(message, { home: await files.folder(gnupg), passphrase }, signal)
    const { urls, ...rest } = parseEntry(text)
    return { ...rest, urls: [...urls, ...hostsIn(id)] }
  }
  const names = async (): Promise<string[]> => (await files.list(dir, ENDING, MOST_ITEMS)).map((path) => path.slice(0, -ENDING.length))

  return {
    async test(signal) {
      const found = await names()
      // So that a missing key or a wrong passphrase is told now, not at a login.
      if (found[0] !== undefined) await read(found[0], signal)
      return [...new Map(found.map((id) => [vaultOf(id).id, vaultOf(id)])).values()]
    },
    async listItems(signal) {
      const found = await names()
      if (readUrls && found.length > MOST_READ) throw new BackendProblem(`the store has more than ${MOST_READ} entries, the limit with "read_urls"`)
      const slots = new Slots(READ_AT_ONCE)
      const urlsOf = async (id: string) => (readUrls ? slots.run(async () => (await read(id, signal)).urls, signal) : hostsIn(id))
      return Promise.all(found.map(async (id): Promise<Item> => ({ id, title: basename(id), vault: vaultOf(id), urls: await urlsOf(id) })))
    },
    async resolve({ id }, signal) {
      if (!(await names()).includes(id)) throw new BackendProblem('the entry is not in the password store any more', { isMissing: true })
      return read(id, signal)
    },
  }
}

/** Its folder; `Store` for entries that are in none. */
function vaultOf(id: string): Vault {
  const folder = dirname(id)
  return folder === '.' ? { id: '', name: 'Store' } : { id: folder, name: folder }
}

/** The first line is the password. Others are `name: value`, or a one-time password's URI. */
export function parseEntry(text: string): ItemValues {
  const [password = '', ...lines] = text.split(/\r?\n/)
  const values: Record<string, string> = password === '' ? {} : { password }
  const urls: string[] = []
  let totp: string | undefined
  for (const line of lines) {
    if (/^\s*otpauth:\/\//i.test(line)) {
      totp ??= readOtp(line)
      continue
    }
    const [, name, value] = /^\s*([\w .-]{1,64}?)\s*:\s*(.+?)\s*$/.exec(line) ?? []
    if (name === undefined || value === undefined) continue
    const plain = name.toLowerCase()
    if (URL_NAMES.includes(plain)) urls.push(value)
    else if (USER_NAMES.includes(plain)) values.username ??= value
    else if (['otp', 'totp'].includes(plain)) totp ??= readOtp(value)
    // The first line is the password, whatever a later one says.
    else if (plain !== 'password') values[plain] ??= value
  }
  return { values, totp, urls }
}
