// The type `command`: a program of the operator that reads a store, and prints what it finds as JSON. It serves stores that have a command line, as KeePassXC's and pass.
import { spawn } from 'node:child_process'
import { addAbortListener, once } from 'node:events'
import { dirname } from 'node:path'
import { z } from 'zod'
import { killAt } from '../../../../base/processes.ts'
import { Slots } from '../../../../base/slots.ts'
import { assertFew, BackendProblem, parseJson, type Backend, type Item, type Vault } from './backend.ts'
import type { CredentialFiles } from './files.ts'
import { readOtp } from './otpauth.ts'
import { FilePath, jsonToken } from './token.ts'

/** Below the limit on a call of a provider (BACKEND_MS), so that the error says which program was too slow. */
const PROGRAM_MS = 20_000
const MAX_LIST = 16 * 1024 * 1024
const MAX_ITEM = 1024 * 1024
/** Programs at once, of all providers. */
const running = new Slots(4)

const Token = z.strictObject({
  program: FilePath,
  /** Given to the program on its standard input, as one line. */
  secret: z
    .string()
    .max(4096)
    .refine((text) => !/[\r\n]/.test(text), 'must be one line')
    .optional(),
})

const Text = z.string().max(64 * 1024)
const Urls = z.array(z.string().max(4096)).max(100).default([])
const List = z.object({
  items: z.array(z.object({ id: z.string().min(1).max(1024), title: z.string().max(1024), vault: z.string().max(1024).default(''), urls: Urls })),
})
/** null: there is no such item any more. */
const Values = z.object({ values: z.record(z.string().min(1).max(256), Text), totp: Text.optional(), urls: Urls }).nullable()

export function commandBackend(token: string, files: CredentialFiles): Backend {
  const { program, secret } = jsonToken(Token, token)

  async function ask<T>(args: string[], maxBytes: number, schema: z.ZodType<T>, signal: AbortSignal): Promise<T> {
    const path = await files.program(program)
    const text = await running.run(() => run(path, args, { input: secret === undefined ? '' : `${secret}\n`, maxBytes }, signal), signal)
    const { data, error } = schema.safeParse(parseJson(text, 'what the program prints'))
    if (error) throw new BackendProblem(`the program prints another form than expected, at "${error.issues[0]?.path.map(String).join('.') ?? ''}"`)
    return data as T
  }

  async function list(signal: AbortSignal): Promise<Item[]> {
    const { items } = await ask(['list'], MAX_LIST, List, signal)
    assertFew(items.length)
    return items.map((item) => ({ ...item, vault: vaultOf(item.vault) }))
  }

  return {
    async test(signal) {
      const vaults = (await list(signal)).map(({ vault }) => vault)
      return [...new Map(vaults.map((vault) => [vault.id, vault])).values()]
    },
    listItems: list,
    async resolve({ id }, signal) {
      const found = await ask(['read', id], MAX_ITEM, Values, signal)
      if (!found) throw new BackendProblem('the item is not in the store any more', { isMissing: true })
      return { values: found.values, totp: found.totp === undefined ? undefined : readOtp(found.totp), urls: found.urls }
    },
  }
}

const vaultOf = (name: string): Vault => ({ id: name, name: name === '' ? 'Store' : name })

/**
 * Runs it without anything of the service's environment, as its secrets; and ends it with all that is in its process group. What it complains of is dropped: it may have values in it.
 * @throws BackendProblem; the signal's reason
 */
async function run(path: string, args: string[], { input, maxBytes }: { input: string; maxBytes: number }, signal: AbortSignal): Promise<string> {
  signal.throwIfAborted()
  const limit = AbortSignal.timeout(PROGRAM_MS)
  const env = { PATH: '/usr/local/bin:/usr/bin:/bin', HOME: dirname(path), LC_ALL: 'C.UTF-8' }
  const child = spawn(path, args, { cwd: dirname(path), env, stdio: ['pipe', 'pipe', 'ignore'], detached: true })
  const kill = () => child.pid !== undefined && killAt(-child.pid)
  using _left = addAbortListener(AbortSignal.any([signal, limit]), kill)
  const ended = once(child, 'exit') as Promise<[number | null]>
  ended.catch(() => {}) // a program that cannot be started is told below
  // What it has started, and left: it may hold the pipe.
  child.once('exit', kill)
  // It may end before it has read it; its status says why.
  child.stdin.on('error', () => {})
  child.stdin.end(input)
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of child.stdout.iterator({ destroyOnReturn: true }) as AsyncIterable<Buffer>) {
    chunks.push(chunk)
    if ((bytes += chunk.length) > maxBytes) break
  }
  if (bytes > maxBytes) kill()
  const [status] = await ended.catch((error: NodeJS.ErrnoException) => {
    throw new BackendProblem(`the program does not start (${error.code ?? error.name})`)
  })
  signal.throwIfAborted()
  if (limit.aborted) throw new BackendProblem(`the program did not end within ${PROGRAM_MS / 1000} s`)
  if (bytes > maxBytes) throw new BackendProblem(`the program prints more than ${maxBytes} bytes, the limit`)
  if (status !== 0) throw new BackendProblem(`the program ended with the status ${status ?? 'of a signal'}; run it by hand as the service's user to see why`)
  return Buffer.concat(chunks).toString('utf8')
}
