// The type `file`: items in a JSON file that only the service's user may read. For development, and for secrets that an orchestrator mounts.
import * as z from 'zod'
import { assertFew, BackendProblem, parseJson, type Backend, type Item, type Vault } from './backend.ts'
import type { CredentialFiles } from './files.ts'
import { FilePath, jsonToken } from './token.ts'

const MAX_BYTES = 8 * 1024 * 1024
const VAULT = 'File'

const Token = z.strictObject({ file: FilePath })
const Text = z.string().max(64 * 1024)
const Content = z.object({
  items: z.array(
    z.object({
      title: z.string().min(1).max(1024),
      vault: z.string().min(1).max(1024).default(VAULT),
      urls: z.array(z.string().max(4096)).max(100).default([]),
      values: z.record(z.string().min(1).max(256), Text),
      totp: Text.optional(),
    }),
  ),
})

export function fileBackend(token: string, files: CredentialFiles): Backend {
  const { file } = jsonToken(Token, token)

  async function read() {
    const text = (await files.read(file, { maxBytes: MAX_BYTES, isPrivate: true })).toString('utf8')
    const { data, error } = Content.safeParse(parseJson(text, 'the file'))
    if (!data) throw new BackendProblem(`the file has another form than expected, at "${error.issues[0]?.path.map(String).join('.') ?? ''}"`)
    assertFew(data.items.length)
    return data.items.map((one) => ({ ...one, id: `${one.vault}/${one.title}`, vault: vaultOf(one.vault) }))
  }
  const vaultOf = (name: string): Vault => ({ id: name, name })

  return {
    test: async () => [...new Set((await read()).map(({ vault }) => vault.name))].map(vaultOf),
    listItems: async () => (await read()).map(({ id, title, vault, urls }): Item => ({ id, title, vault, urls })),
    async resolve({ id }) {
      const found = (await read()).find((one) => one.id === id)
      if (!found) throw new BackendProblem('the item is not in the file any more', { isMissing: true })
      return { values: found.values, totp: found.totp, urls: found.urls }
    },
  }
}
