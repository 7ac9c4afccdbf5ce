// Text fields of a form wait in memory while a file before them is stored: their total is limited.
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, test } from 'vitest'
import { sleep } from '../base/wait.ts'
import type { Fault } from './fault.ts'
import { readForm } from './form.ts'

/** The parts that a reader gets that stores a file slowly. */
async function read(form: FormData): Promise<string[] | Fault> {
  const { promise, resolve } = Promise.withResolvers<string[] | Fault>()
  const server = createServer((request, response) => {
    const reading = async () => {
      const names: string[] = []
      for await (const part of readForm(request, AbortSignal.timeout(10_000))) {
        names.push(part.name)
        if (!('content' in part)) continue
        part.content.resume()
        await sleep(300)
      }
      return names
    }
    void reading()
      .then(resolve, resolve)
      .then(() => response.end())
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  try {
    await (await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, { method: 'POST', body: form })).text()
    return await promise
  } finally {
    server.close()
  }
}

function formOf(fields: number, bytes: number): FormData {
  const form = new FormData()
  form.set('file', new Blob(['x']), 'f')
  for (let at = 0; at < fields; at++) form.set(`f${at}`, 'x'.repeat(bytes))
  return form
}

test('a form with many small fields is read', async () => {
  expect(await read(formOf(900, 1_000))).toHaveLength(901)
})

test('more than 4 MiB of text is refused before the file is stored', async () => {
  expect(await read(formOf(10, 1_000_000))).toMatchObject({ code: 'payload_too_large' })
})
