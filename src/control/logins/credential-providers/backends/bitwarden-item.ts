// Items in Bitwarden's form, which its exports and `bw serve` share.
import * as z from 'zod'
import { BackendProblem, type Item, type ItemValues, type Vault } from './backend.ts'
import { readOtp } from './otpauth.ts'

const LOGIN = 1
/** Bitwarden's methods of comparing an item's URI: a regular expression is no URL, and "never" means that it must not be used. */
const MATCH = { regularExpression: 4, never: 5 }
/** A field that shows another one has no value of its own. */
const LINKED = 3

const Text = z.string().nullish()
export const BitwardenItem = z.object({
  id: z.string(),
  type: z.int(),
  name: z.string(),
  folderId: Text,
  deletedDate: Text,
  login: z
    .object({
      username: Text,
      password: Text,
      totp: Text,
      uris: z.array(z.object({ uri: Text, match: z.int().nullish() })).nullish(),
    })
    .nullish(),
  fields: z.array(z.object({ name: Text, value: Text, type: z.int().nullish() })).nullish(),
})
export type BitwardenItem = z.output<typeof BitwardenItem>

export const Folder = z.object({ id: z.string().nullish(), name: z.string() })
export type Folder = z.output<typeof Folder>

/** Bitwarden's own name for it. */
const NO_FOLDER: Vault = { id: '', name: 'No Folder' }

export const vaultsOf = (folders: readonly Folder[]): Vault[] => [...folders.filter(({ id }) => id).map(({ id, name }) => ({ id: id!, name })), NO_FOLDER]

/** Logins outside of the trash. */
export const loginsOf = (items: readonly BitwardenItem[]): BitwardenItem[] => items.filter(({ type, deletedDate }) => type === LOGIN && !deletedDate)

export function itemOf(item: BitwardenItem, vaults: readonly Vault[]): Item {
  const vault = vaults.find(({ id }) => id === (item.folderId ?? '')) ?? NO_FOLDER
  return { id: item.id, title: item.name, vault, urls: urlsOf(item) }
}

export function valuesOf(item: BitwardenItem | undefined): ItemValues {
  if (!item) throw new BackendProblem('the item is not in the store any more', { isMissing: true })
  const { login } = item
  const own = (item.fields ?? []).filter(({ name, type }) => name && type !== LINKED).map(({ name, value }) => [name!, value] as const)
  const named: (readonly [string, string | null | undefined])[] = [...own, ['username', login?.username], ['password', login?.password]]
  return {
    values: Object.fromEntries(named.filter((pair): pair is [string, string] => Boolean(pair[1]))),
    totp: login?.totp ? readOtp(login.totp) : undefined,
    urls: urlsOf(item),
  }
}

const urlsOf = ({ login }: BitwardenItem): string[] =>
  (login?.uris ?? []).flatMap(({ uri, match }) => (uri && match !== MATCH.regularExpression && match !== MATCH.never ? [uri] : []))
