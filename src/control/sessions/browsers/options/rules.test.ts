// What follows from one declaration of an option: a made-up one, known to no other file.
import { expect, expectTypeOf, test } from 'vitest'
import { z } from 'zod'
import { openapi } from '../../../../http/openapi.ts'
import { withoutNulls } from '../../../../http/not-given.ts'
import { json, route } from '../../../../http/route.ts'
import { OPTIONS } from './contract.ts'
import { createShape, notBuilt, option, replyShape, updateShape, type Place } from './option/contract.ts'
import { optionRules } from './rules.ts'

const Paper = z.enum(['white', 'grey'])
const MADE_UP = {
  paper: option({
    create: z.strictObject({ colour: Paper, sheets: z.int().max(10).optional() }).optional(),
    update: z.strictObject({ colour: Paper }).optional(),
    refuseCreate: (given, { region }) =>
      given?.sheets === 10 && region === 'us-east' ? { field: 'paper.sheets', problem: 'too many for the east' } : undefined,
    refuseUpdate: (given, { maxScreen }) => (given?.colour === 'grey' && maxScreen.width < 100 ? { field: 'paper.colour', problem: 'too small' } : undefined),
    store: (given) => given?.colour ?? 'white',
    restore: (given) => given?.colour ?? 'white',
    reply: { schema: z.object({ colour: Paper, region: z.string() }), show: (colour, { region }) => ({ colour, region }) },
    fit: (given, { viewport }) => (given ? { start_url: `about:${given.colour}-${viewport.width}` } : {}),
    refit: (given) => (given ? { start_url: `about:${given.colour}` } : {}),
  }),
  ghosts: option({ create: notBuilt('ghosts are'), update: notBuilt('ghosts are') }),
  ink: option({ create: z.boolean().default(true), fit: (given) => ({ fullscreen: given }) }),
}
const rules = optionRules(MADE_UP)
const Create = z.strictObject(createShape(MADE_UP))
const Update = z.strictObject(updateShape(MADE_UP))
const Reply = z.object(replyShape(MADE_UP))
const place: Place = { region: 'us-east', memory: '2GiB', memoryMb: 4096 }
const booted = { fullscreen: false, stealth: false, viewport: { width: 800, height: 600, refresh_rate: 60 }, maxScreen: { width: 90, height: 90 } }
const problems = (schema: z.ZodType, body: unknown) => schema.safeParse(body).error?.issues.map(({ path, message }) => `${path.join('.')}: ${message}`)

test('the bodies of create and update take it, and refuse what it does not allow', () => {
  expect(Create.parse({ paper: { colour: 'grey', sheets: 3 } })).toEqual({ paper: { colour: 'grey', sheets: 3 }, ink: true })
  expect(problems(Create, { paper: { colour: 'red' } })).toEqual([expect.stringContaining('paper.colour: ')])
  expect(problems(Create, { ghosts: { of: 'people' } })).toEqual(['ghosts: ghosts are not built yet in this version of Cob'])
  expect(problems(Update, { ink: true })).toEqual([expect.stringContaining('Unrecognized key: "ink"')])
  expect(withoutNulls(Create, { paper: null, ghosts: null, ink: null })).toEqual({ ghosts: null })
  expectTypeOf<z.output<typeof Create>['paper']>().toEqualTypeOf<{ colour: 'white' | 'grey'; sheets?: number | undefined } | undefined>()
  expectTypeOf<keyof z.output<typeof Update>>().toEqualTypeOf<'paper' | 'ghosts'>()
})

test('a service refuses it by field, in a create and in an update', () => {
  expect(rules.refuseCreate(Create.parse({ paper: { colour: 'grey', sheets: 10 } }), place)).toEqual({
    field: 'paper.sheets',
    problem: 'too many for the east',
  })
  expect(rules.refuseCreate(Create.parse({ paper: { colour: 'grey', sheets: 10 } }), { ...place, region: 'us-west' })).toBeUndefined()
  expect(rules.refuseUpdate(Update.parse({ paper: { colour: 'grey' } }), { ...booted, paper: 'white' })).toEqual({
    field: 'paper.colour',
    problem: 'too small',
  })
  expect(rules.refuseUpdate(Update.parse({}), { ...booted, paper: 'white' })).toBeUndefined()
})

test('the row has it in its stored form, and the answer shows what the row has', () => {
  const stored = rules.stored(Create.parse({ paper: { colour: 'grey' } }))
  expect(stored).toEqual({ paper: 'grey' })
  expectTypeOf(stored).toEqualTypeOf<{ paper: 'white' | 'grey' }>()
  const shown = rules.shown(JSON.parse(JSON.stringify(stored)) as typeof stored, place)
  expect(shown).toEqual({ paper: { colour: 'grey', region: 'us-east' } })
  expect(Reply.parse(shown)).toEqual(shown)
  expectTypeOf(shown).toEqualTypeOf<{ paper: { colour: 'white' | 'grey'; region: string } }>()
})

test('an option can show what another one has stored', () => {
  const twice = optionRules({ ...MADE_UP, colour: option({ reply: { schema: Paper, of: 'paper', show: (paper: z.output<typeof Paper>) => paper } }) })
  expect(twice.shown({ paper: 'grey' } as ReturnType<typeof twice.stored>, place)).toEqual({ paper: { colour: 'grey', region: 'us-east' }, colour: 'grey' })
})

test('a row that an earlier version wrote, without it, shows its default', () => {
  expect(rules.shown({} as ReturnType<typeof rules.stored>, place)).toEqual({ paper: { colour: 'white', region: 'us-east' } })
})

test('a new browser is fitted to it, and so is a running one that is updated', () => {
  expect(rules.fit(Create.parse({ paper: { colour: 'grey' } }), booted)).toEqual({ start_url: 'about:grey-800', fullscreen: true })
  expect(rules.fit(Create.parse({ ink: false }), booted)).toEqual({ fullscreen: false })
  expect(rules.changes(Update.parse({ paper: { colour: 'grey' }, ghosts: null }), { paper: 'white' })).toEqual([
    { name: 'paper', stored: { paper: 'grey' }, fit: { start_url: 'about:grey' } },
  ])
  expect(rules.changes(Update.parse({}), { paper: 'white' })).toEqual([])
})

test('OpenAPI describes it in the bodies and in the answer', () => {
  const document = JSON.stringify(
    openapi({ title: '', version: '', description: '' }, [
      { make: route({ method: 'POST', path: '/sheets', id: 'make', group: 'Sheets', summary: '', body: Create, reply: json(Reply) }) },
      { change: route({ method: 'PATCH', path: '/sheets', id: 'change', group: 'Sheets', summary: '', body: Update, reply: json(Reply) }) },
    ]),
  )
  const { paths } = JSON.parse(document) as {
    paths: Record<
      string,
      Record<
        string,
        { requestBody: { content: Record<string, { schema: object }> }; responses: Record<string, { content: Record<string, { schema: object }> }> }
      >
    >
  }
  const { post, patch } = paths['/sheets']!
  const colour = { type: 'string', enum: ['white', 'grey'] }
  expect(post!.requestBody.content['application/json']!.schema).toMatchObject({
    properties: { paper: { properties: { colour, sheets: { type: 'integer', maximum: 10 } } }, ghosts: {}, ink: { type: 'boolean', default: true } },
  })
  expect(patch!.requestBody.content['application/json']!.schema).toMatchObject({ properties: { paper: { properties: { colour } } } })
  expect(post!.responses['200']!.content['application/json']!.schema).toMatchObject({ properties: { paper: { properties: { colour } } } })
})

test('no option of browsers has to be given in a create or an update', () => {
  expect(Object.keys(z.strictObject(createShape(OPTIONS)).parse({}))).toEqual(['headless', 'stealth', 'kiosk_mode'])
  expect(z.strictObject(updateShape(OPTIONS)).parse({})).toEqual({})
})
