// The type `onepassword`: 1Password with a service account's token, by its official SDK. The SDK is behind `Client`, which tests replace.
import { VERSION } from '../../../../base/version.ts'
import { abortable } from '../../../../base/wait.ts'
import { assertFew, BackendProblem, type Backend, type Item } from './backend.ts'
import { readOtp } from './otpauth.ts'

/** The part of the SDK's client that is used. */
export interface Client {
  vaults: { list(): Promise<{ id: string; title: string }[]> }
  items: {
    list(vaultId: string): Promise<{ id: string; title: string; vaultId: string; websites: Website[] }[]>
    get(vaultId: string, itemId: string): Promise<{ fields: Field[]; websites: Website[] }>
  }
}
interface Website {
  url: string
  autofillBehavior?: string
}
interface Field {
  id: string
  title: string
  fieldType: string
  value: string
}
export type Connect = (token: string) => Promise<Client>

/** The servers of accounts. A token names its server, and callers choose the token. */
const SERVERS = /^https:\/\/([\w-]+\.)*1password\.(com|ca|eu)\/?$/i
/** Kinds of fields that are typed into forms. */
const TYPED = ['Text', 'Concealed', 'Email', 'Phone']

/** The SDK is loaded only when it is needed: it has 14 MB, with a program in WebAssembly. */
export const connectOnePassword: Connect = async (token) => {
  const { createClient } = await import('@1password/sdk')
  return createClient({ auth: token, integrationName: 'Cob', integrationVersion: `v${VERSION}` })
}

export function onePasswordBackend(token: string, connect: Connect): Backend {
  /** The SDK's errors may contain parts of answers, so only their kind is passed on. */
  async function ask<T>(signal: AbortSignal, work: (client: Client) => Promise<T>): Promise<T> {
    assertServer(token)
    try {
      return await abortable(
        connect(token).then((client) => work(client)),
        signal,
      )
    } catch (error) {
      signal.throwIfAborted()
      if (error instanceof BackendProblem) throw error
      const isLimited = error instanceof Error && /RateLimit/i.test(error.constructor.name)
      throw new BackendProblem(isLimited ? '1Password allows no more requests for now' : 'the token was not accepted, or 1Password cannot be reached')
    }
  }
  const vaultsOf = async (client: Client) => (await client.vaults.list()).map(({ id, title }) => ({ id, name: title }))

  return {
    test: (signal) => ask(signal, vaultsOf),
    listItems: (signal) =>
      ask(signal, async (client) => {
        const items: Item[] = []
        for (const vault of await vaultsOf(client)) {
          for (const { id, title, websites } of await client.items.list(vault.id)) items.push({ id, title, vault, urls: usable(websites) })
          assertFew(items.length)
        }
        return items
      }),
    resolve: ({ id, vault }, signal) =>
      ask(signal, async (client) => {
        const { fields, websites } = await client.items.get(vault.id, id)
        const otp = fields.find(({ fieldType }) => fieldType === 'Totp')
        const named = fields.filter(({ fieldType, value }) => TYPED.includes(fieldType) && value !== '').map((field) => [nameOf(field), field.value] as const)
        // The item's own user name and password come last, so that a field of a section does not replace them.
        const values = Object.fromEntries([...named.filter(([name]) => !BUILT_IN.includes(name)), ...builtIn(fields)])
        return { values, totp: otp && readOtp(otp.value), urls: usable(websites) }
      }),
  }
}

/** A website that its owner has set to "never fill" is not for logins. */
const usable = (websites: Website[]): string[] => websites.filter(({ autofillBehavior }) => autofillBehavior !== 'Never').map(({ url }) => url)
const BUILT_IN = ['username', 'password']
const nameOf = ({ id, title }: Field): string => (BUILT_IN.includes(id) ? id : title)
const builtIn = (fields: readonly Field[]) =>
  fields.filter(({ id, value }) => BUILT_IN.includes(id) && value !== '').map(({ id, value }) => [id, value] as const)

/** A service account's token is "ops_" and JSON in base64, with the address of its server. @throws BackendProblem when that is not a server of 1Password */
function assertServer(token: string): void {
  const [, encoded] = /^ops_([\w+/=-]+)$/.exec(token) ?? []
  const wrong = new BackendProblem('this is no token of a service account of 1Password')
  if (encoded === undefined) throw wrong
  let address: unknown
  try {
    address = (JSON.parse(Buffer.from(encoded, 'base64url').toString('utf8')) as { signInAddress?: unknown } | null)?.signInAddress
  } catch {
    throw wrong // the parser's error has parts of the token in it
  }
  if (typeof address !== 'string') throw wrong
  const url = /^https?:\/\//i.test(address) ? address : `https://${address}`
  if (!SERVERS.test(url)) throw new BackendProblem('the token is for a server that is not one of 1Password')
}
