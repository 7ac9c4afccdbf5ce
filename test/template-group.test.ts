// Runs the made-up group of test/template-group in a service: a group needs only a folder and one line in a list.
import { beforeAll, describe, expect, test } from 'vitest'
import { defineModule, hook, opening, phases, question, type Foundation, type Module, type Serving } from '../src/control/module.ts'
import { modules } from '../src/control/modules.ts'
import { fastCloud } from './support/fast-cloud.ts'
import { notes } from './template-group/module.ts'

describe('a service with one more group', () => {
  const cloud = fastCloud({ COB_WARM_BROWSERS: '0' }, undefined, [...modules, notes])
  beforeAll(async () => {
    await cloud.query(
      'create table notes (id text primary key, project_id text references projects, created_at timestamptz not null default now(), text text not null, profile_id text)',
    )
  })

  const send = async (method: string, path: string, body?: object) => {
    const response = body === undefined ? await cloud.fetch(path, { method }) : await cloud.send(method, path, body)
    return { status: response.status, body: (response.status === 204 ? undefined : await response.json()) as Record<string, unknown> }
  }

  test('serves its calls, checks what they are given by the contract, and has them in the OpenAPI document', async () => {
    const made = await send('POST', '/notes', { text: 'hello' })
    expect(made).toMatchObject({ status: 201, body: { text: 'hello', profile_id: null } })
    expect((await send('GET', `/notes/${String(made.body.id)}`)).body).toEqual(made.body)
    expect((await send('GET', '/notes')).body).toEqual([made.body])
    expect(await send('POST', '/notes', { text: 1 })).toMatchObject({ status: 400, body: { code: 'bad_request', message: expect.stringContaining('text') } })
    expect((await send('DELETE', `/notes/${String(made.body.id)}`)).status).toBe(204)
    expect((await send('DELETE', `/notes/${String(made.body.id)}`)).status).toBe(404)
    expect((await send('GET', '/openapi.json')).body).toMatchObject({ paths: { '/notes': { post: { operationId: 'createNote' } } } })
    expect((await fetch(`${cloud.url}/notes`)).status).toBe(401)
  })

  test('keeps a project that has some of its objects, and hides them from other projects', async () => {
    const { body: project } = await send('POST', '/org/projects', { name: 'notes' })
    const id = String(project.id)
    const inProject = (method: string, path: string, body?: object) =>
      cloud.fetch(path, { method, headers: { 'x-kernel-project-id': id, 'content-type': 'application/json' }, body: body ? JSON.stringify(body) : null })
    const note = (await (await inProject('POST', '/notes', { text: 'mine' })).json()) as { id: string }
    expect((await send('GET', `/notes/${note.id}`)).status).toBe(404)
    expect(await send('DELETE', `/org/projects/${id}`)).toMatchObject({ status: 409, body: { message: expect.stringContaining('1 notes') } })
    expect((await inProject('DELETE', `/notes/${note.id}`)).status).toBe(204)
    expect((await send('DELETE', `/org/projects/${id}`)).status).toBe(204)
  })

  test('hears what another group tells', async () => {
    const { body: profile } = await send('POST', '/profiles', { name: 'noted' })
    const { body: note } = await send('POST', '/notes', { text: 'of a profile', profile_id: profile.id })
    expect((await send('DELETE', '/profiles/noted')).status).toBe(204)
    expect((await send('GET', `/notes/${String(note.id)}`)).status).toBe(404)
  })
})

describe('modules', () => {
  const open = (all: readonly Module[]) =>
    opening({ signal: AbortSignal.timeout(60_000) } as Foundation, {} as Serving, all, new AsyncDisposableStack()).openAll()
  const asked = question<() => number>('the answer')
  const asking = defineModule({ name: 'asking', open: (house) => void house.ask(asked) })
  const answering = (name: string) => defineModule({ name, open: (house) => house.fill(asked, () => 42) })

  test('with a question that nobody or two answer are not opened', async () => {
    await expect(open([asking])).rejects.toThrow('the answer: 0 answers')
    await expect(open([asking, answering('one'), answering('two')])).rejects.toThrow('the answer: 2 answers')
    await expect(open([asking, answering('one')])).resolves.toBeDefined()
  })

  test('that tell what nobody asks for are not opened', async () => {
    await expect(open([defineModule({ name: 'a', open: (house) => house.fill(hook<number>('a number'), 1) })])).rejects.toThrow('a number: nobody asks')
  })

  test('have names of their own, and use only those before them', async () => {
    expect(() => open([answering('one'), answering('one')])).toThrow('two modules have the same name')
    const first = defineModule({ name: 'first', open: () => 1 })
    await expect(open([defineModule({ name: 'second', open: (house) => void house.of(first) }), first])).rejects.toThrow('first is not open yet')
  })

  test('begin in their order, and end in the opposite one', async () => {
    const received: string[] = []
    const one = (name: string) =>
      defineModule({
        name,
        open(house) {
          house.fill(phases.start, () => void received.push(`start ${name}`))
          house.fill(phases.stop, () => void received.push(`stop ${name}`))
        },
      })
    const house = opening({ signal: AbortSignal.timeout(60_000) } as Foundation, {} as Serving, [one('a'), one('b')], new AsyncDisposableStack())
    await house.openAll()
    await house.run(phases.start)
    await house.run(phases.stop)
    expect(received).toEqual(['start a', 'start b', 'stop b', 'stop a'])
  })
})
