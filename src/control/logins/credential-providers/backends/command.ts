// The type `command`: a program of the operator that reads a store, and prints JSON. For stores with a command line, such as KeePassXC and pass.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { dirname } from 'node:path'
import type { Readable } from 'node:stream'
import * as z from 'zod'
import { endProcessGroup, killProcessGroup } from '../../../../base/processes.ts'
import { Slots } from '../../../../base/slots.ts'
import { WaitTimeout, within } from '../../../../base/wait.ts'
import { assertFew, BackendProblem, parseJson, type Backend, type Item, type Vault } from './backend.ts'
import type { CredentialFiles } from './files.ts'
import { readOtp } from './otpauth.ts'
import { FilePath, jsonToken } from './token.ts'

/** Shorter than the limit on a call of a provider (BACKEND_MS), so that the error names the slow program. */
const PROGRAM_MS = 20_000
const MAX_LIST = 16 * 1024 * 1024
const MAX_ITEM = 1024 * 1024
/** Programs at once, of all providers. */
const running = new Slots(4)

const Token = z.strictObject({
  program: FilePath,
  /** The program gets it on its standard input, as one line. */
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
/** null: the item does not exist any more. */
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
 * Runs the program without the environment of the service, which contains secrets. Kills its process group at its end. Drops its stderr, because it may contain
 * values of credentials. @throws BackendProblem; the signal's reason
 */
async function run(path: string, args: string[], { input, maxBytes }: { input: string; maxBytes: number }, signal: AbortSignal): Promise<string> {
  signal.throwIfAborted()
  const env = { PATH: '/usr/local/bin:/usr/bin:/bin', HOME: dirname(path), LC_ALL: 'C.UTF-8' }
  const child = spawn(path, args, { cwd: dirname(path), env, stdio: ['pipe', 'pipe', 'ignore'], detached: true })
  const exited = once(child, 'exit').then(
    ([status]) => status as number | null,
    (error: NodeJS.ErrnoException) => new BackendProblem(`the program does not start (${error.code ?? error.name})`),
  )
  // Its child processes may still hold the pipe.
  child.once('exit', () => killProcessGroup(child))
  // It may end before it has read its input. Then its exit status tells the reason.
  child.stdin.on('error', () => {})
  child.stdin.end(input)
  const finished = async () => ({ text: await outputOf(child.stdout, maxBytes), status: await exited })
  try {
    const { text, status } = await within('the program', PROGRAM_MS, finished(), signal)
    if (status instanceof BackendProblem) throw status
    if (status !== 0) throw new BackendProblem(`the program ended with the status ${status ?? 'of a signal'}; run it by hand as the service's user to see why`)
    return text
  } catch (error) {
    throw error instanceof WaitTimeout ? new BackendProblem(`the program did not end within ${PROGRAM_MS / 1000} s`) : error
  } finally {
    // A process that has left the group may still hold the pipe.
    child.stdout.destroy()
    await endProcessGroup('the program', child, exited).catch(() => {
      throw new BackendProblem('the program cannot be ended')
    })
  }
}

/** @throws BackendProblem when there is more than `maxBytes` */
async function outputOf(stdout: Readable, maxBytes: number): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of stdout as AsyncIterable<Buffer>) {
    chunks.push(chunk)
    if ((bytes += chunk.length) > maxBytes) throw new BackendProblem(`the program prints more than ${maxBytes} bytes, the limit`)
  }
  return Buffer.concat(chunks).toString('utf8')
}
