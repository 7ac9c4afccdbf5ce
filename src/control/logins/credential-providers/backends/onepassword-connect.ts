// The type `onepassword-connect`: the operator's own 1Password Connect server, over HTTP.
import * as z from 'zod'
import { assertFew, BackendProblem, type Backend, type Item } from './backend.ts'
import { parsed, type Answer, type Asker } from './http.ts'
import { readOtp } from './otpauth.ts'
import { Address, jsonToken } from './token.ts'

const Token = z.strictObject({ address: Address, token: z.string().regex(/^[\x21-\x7e]+$/, 'must be printable ASCII characters') })

const Vaults = z.array(z.object({ id: z.string(), name: z.string() }))
const Urls = z.array(z.object({ href: z.string() })).nullish()
const Items = z.array(z.object({ id: z.string(), title: z.string(), state: z.string().nullish(), urls: Urls }))
const Whole = z.object({
  urls: Urls,
  fields: z
    .array(z.object({ id: z.string(), type: z.string(), purpose: z.string().nullish(), label: z.string().nullish(), value: z.string().nullish() }))
    .nullish(),
})
/** Kinds of fields that are typed into forms. */
const TYPED = ['STRING', 'CONCEALED', 'EMAIL', 'PHONE']

export function connectBackend(text: string, asker: Asker): Backend {
  const { address, token } = jsonToken(Token, text)
  async function ask(path: string, signal: AbortSignal): Promise<Answer> {
    const answer = await asker.ask(`${address}/v1/${path}`, { headers: { Authorization: `Bearer ${token}` } }, signal)
    if (answer.status === 401 || answer.status === 403) throw new BackendProblem('the token was not accepted')
    return answer
  }
  const vaults = async (signal: AbortSignal) => parsed(Vaults, await ask('vaults', signal))

  return {
    assertAllowed: (signal) => asker.assertReachable(address, signal),
    test: vaults,
    async listItems(signal) {
      const items: Item[] = []
      for (const vault of await vaults(signal)) {
        const found = parsed(Items, await ask(`vaults/${encodeURIComponent(vault.id)}/items`, signal))
        for (const { id, title, state, urls } of found) if (state !== 'ARCHIVED') items.push({ id, title, vault, urls: (urls ?? []).map(({ href }) => href) })
        assertFew(items.length)
      }
      return items
    },
    async resolve({ id, vault }, signal) {
      const answer = await ask(`vaults/${encodeURIComponent(vault.id)}/items/${encodeURIComponent(id)}`, signal)
      if (answer.status === 404) throw new BackendProblem('the item does not exist any more', { isMissing: true })
      const { fields, urls } = parsed(Whole, answer)
      const given = (fields ?? []).filter(({ value }) => value)
      const purposes = [
        ['username', given.find(({ purpose }) => purpose === 'USERNAME')?.value],
        ['password', given.find(({ purpose }) => purpose === 'PASSWORD')?.value],
      ] as const
      const others = given.filter(({ type, purpose }) => !purpose && TYPED.includes(type)).map(({ id: name, label, value }) => [label || name, value] as const)
      const otp = given.find(({ type }) => type === 'OTP')?.value
      return {
        values: Object.fromEntries([...others, ...purposes].filter((pair): pair is [string, string] => Boolean(pair[1]))),
        totp: otp ? readOtp(otp) : undefined,
        urls: (urls ?? []).map(({ href }) => href),
      }
    },
  }
}
