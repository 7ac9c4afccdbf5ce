// The type `bitwarden`: the operator's `bw serve`, Bitwarden's own program, which decrypts the vault and answers over HTTP.
import * as z from 'zod'
import { assertFew, BackendProblem, type Backend } from './backend.ts'
import { BitwardenItem, Folder, itemOf, loginsOf, valuesOf, vaultsOf } from './bitwarden-item.ts'
import { parsed, type Answer, type Asker } from './http.ts'
import { Address, jsonToken } from './token.ts'

/** `password`: the master password, which unlocks a locked vault. */
const Token = z.strictObject({ address: Address, password: z.string().min(1).optional() })

const List = <T extends z.ZodType>(item: T) => z.object({ success: z.literal(true), data: z.object({ data: z.array(item) }) })
const Status = z.object({ success: z.literal(true), data: z.object({ template: z.object({ status: z.enum(['unlocked', 'locked', 'unauthenticated']) }) }) })
const One = z.object({ success: z.literal(true), data: BitwardenItem })

export function bitwardenBackend(token: string, asker: Asker): Backend {
  const { address, password } = jsonToken(Token, token)
  const read = <T>(schema: z.ZodType<T>, answer: Answer): T => parsed(schema, answer, '"bw serve"')

  /** @throws BackendProblem when it is locked and cannot be unlocked */
  async function unlocked(signal: AbortSignal): Promise<void> {
    const { status } = read(Status, await asker.ask(`${address}/status`, {}, signal)).data.template
    if (status === 'unauthenticated') throw new BackendProblem('"bw serve" is not logged in')
    if (status === 'unlocked') return
    if (password === undefined) throw new BackendProblem('the vault of "bw serve" is locked, and the token has no password')
    const answer = await asker.ask(`${address}/unlock`, { method: 'POST', body: { password } }, signal)
    if (answer.status !== 200) throw new BackendProblem('"bw serve" does not take the master password')
  }

  const folders = async (signal: AbortSignal) => vaultsOf(read(List(Folder), await asker.ask(`${address}/list/object/folders`, {}, signal)).data.data)

  return {
    assertAllowed: (signal) => asker.assertReachable(address, signal),
    async test(signal) {
      await unlocked(signal)
      return folders(signal)
    },
    async listItems(signal) {
      await unlocked(signal)
      const vaults = await folders(signal)
      const items = read(List(BitwardenItem), await asker.ask(`${address}/list/object/items`, {}, signal)).data.data
      assertFew(items.length)
      return loginsOf(items).map((item) => itemOf(item, vaults))
    },
    async resolve({ id }, signal) {
      await unlocked(signal)
      const answer = await asker.ask(`${address}/object/item/${encodeURIComponent(id)}`, {}, signal)
      if (answer.status === 404) return valuesOf(undefined)
      return valuesOf(loginsOf([read(One, answer).data])[0])
    },
  }
}
