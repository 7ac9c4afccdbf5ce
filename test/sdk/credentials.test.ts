// The published SDKs with a running service: credentials. Every answer is checked against the contract, and secrets stay secret.
import { BadRequestError, ConflictError, NotFoundError } from '@onkernel/sdk'
import { randomBytes } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { startCloud } from '../support/cloud.ts'
import { conforms } from '../support/contract.ts'
import { forTests } from '../support/for-tests.ts'
import { runPython } from '../support/python.ts'

const cloud = forTests(() => startCloud({ COB_DRIVER: 'fake', COB_WARM_BROWSERS: '0', COB_LOG_LEVEL: 'trace' }))

test('client.credentials creates, retrieves, updates, lists, gives codes and deletes', async () => {
  const { credentials } = cloud.client
  const made = await credentials.create({
    name: 'mine',
    domain: 'site.test',
    values: { username: 'kim', password: 'hush' },
    sso_provider: 'google',
    totp_secret: 'jbsw y3dp-ehpk 3pxp',
  })
  conforms('Credential', made)
  expect(made).toMatchObject({ name: 'mine', domain: 'site.test', sso_provider: 'google', has_values: true, has_totp_secret: true })
  expect([made.value_keys, made.totp_code, Date.parse(made.totp_code_expires_at!) > Date.now()]).toEqual([
    ['username', 'password'],
    expect.stringMatching(/^\d{6}$/),
    true,
  ])
  const read = await credentials.retrieve('mine')
  conforms('Credential', read)
  expect(read).toEqual({ ...made, totp_code: undefined, totp_code_expires_at: undefined })
  const code = await credentials.totpCode(made.id)
  conforms('CredentialTotpCodeResponse', code)
  const updated = await credentials.update('mine', {
    name: 'yours',
    values: { email: 'k@site.test' },
    remove_value_keys: ['username'],
    totp_secret: '',
    sso_provider: null,
  })
  conforms('Credential', updated)
  expect(updated).toMatchObject({ id: made.id, name: 'yours', has_totp_secret: false, value_keys: ['password', 'email'] })
  expect(updated.sso_provider).toBeUndefined()
  await expect(credentials.totpCode('yours')).rejects.toBeInstanceOf(BadRequestError)
  await expect(credentials.create({ name: 'yours', domain: 'site.test', values: {} })).rejects.toBeInstanceOf(ConflictError)
  await credentials.delete('yours')
  for (const call of ['retrieve', 'totpCode', 'delete'] as const) await expect(credentials[call](made.id)).rejects.toBeInstanceOf(NotFoundError)
})

test('lists have pages, and no keys of values', async () => {
  const { credentials } = cloud.client
  const made: string[] = []
  for (let i = 0; i < 3; i++) made.push((await credentials.create({ name: `page ${i}`, domain: 'paged.test', values: { password: 'hush' } })).id)
  const listed: string[] = []
  for await (const credential of credentials.list({ query: 'PAGE', domain: 'paged.test', limit: 2 })) {
    conforms('Credential', credential)
    expect(credential).not.toHaveProperty('value_keys')
    listed.push(credential.id)
  }
  expect(listed).toEqual(made.toReversed())
})

test.each(['0.84.0', '0.131.0'])('kernel %s for Python makes every call', async (release) => {
  await runPython(cloud, release, ['credentials.py', 'hush'])
})

/** The content of a file, or empty when it has just been removed. */
function textOf(file: string): string {
  try {
    return readFileSync(file, 'latin1')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    return ''
  }
}

/** The text itself, and the forms in which a database or a log may write its bytes. */
const writings = (secret: string): string[] => {
  // Base64 of a text inside another one has three forms, depending on its offset. Its ends depend on the text around it, so leave them out.
  const base64 = [0, 1, 2].map((at) =>
    Buffer.from('x'.repeat(at) + secret)
      .toString('base64')
      .slice(4, -4),
  )
  return [secret, Buffer.from(secret).toString('hex'), encodeURIComponent(secret), ...base64]
}

test('what is secret is in no answer, log, table or file of the service, also after bad requests with it', async () => {
  const canaries = { value: `CANARY-${randomBytes(12).toString('hex')}`, newer: `CANARY-${randomBytes(12).toString('hex')}`, totp: '' }
  canaries.totp = Array.from(randomBytes(32), (byte) => 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'[byte % 32]).join('')
  const { value, newer, totp } = canaries
  const answers: string[] = []
  const send = async (method: string, path: string, body?: unknown): Promise<number> => {
    const headers = { 'content-type': 'application/json' }
    const response = await cloud.fetch(path, { method, headers, ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }) })
    answers.push(JSON.stringify([...response.headers]) + (await response.text()))
    return response.status
  }
  const [start, end] = [-1, 1].map((hours) => new Date(Date.now() + hours * 3_600_000).toISOString())
  const audit = `/audit-logs?start=${start}&end=${end}`
  const good = { name: 'canary', domain: 'site.test', values: { password: value }, totp_secret: totp }
  expect(await send('POST', '/credentials', good)).toBe(201)
  expect(await send('PATCH', '/credentials/canary', { values: { email: newer } })).toBe(200)
  for (const path of ['/credentials', '/credentials/canary', '/credentials/canary/totp-code', audit]) expect(await send('GET', path)).toBe(200)
  expect(await send('POST', '/credentials', good)).toBe(409)
  for (const bad of [
    { ...good, values: { password: { text: value } } },
    { ...good, values: [value] },
    { ...good, values: { password: value.repeat(1000) } },
    { ...good, domain: 'no host' },
    { ...good, totp_secret: `${totp}1` },
    { ...good, totp_secret: `otpauth://hotp/x?secret=${totp}` },
    { ...good, totp_secret: [totp] },
    JSON.stringify(good).slice(0, -30),
    JSON.stringify(good).replace(`"${value}"`, value),
  ])
    expect(await send('POST', '/credentials', bad)).toBe(400)
  expect(await send('PATCH', '/credentials/canary', { values: { password: value }, totp_secret: totp, sso_provider: 7 })).toBe(400)

  // A checkpoint writes the database's pages and its log to disk.
  await cloud.query('checkpoint')
  // Search files before tables: entries that leave the audit log's buffer meanwhile are then in its table.
  const files = readdirSync(cloud.dataDir, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .map((place) => ({ place, text: textOf(place) }))
  const tables = await cloud.query<{ name: string }>(
    `select format('%I.%I', schemaname, tablename) as name from pg_tables where schemaname <> 'information_schema'`,
  )
  const rows = await Promise.all(tables.map(({ name }) => cloud.query<{ row: string }>(`select t::text as row from ${name} t`)))
  const dump = rows.flat().map(({ row }) => row)
  // Check that the search finds what is there.
  expect([dump.some((row) => row.includes('canary') && row.includes('\\x')), cloud.log().includes('/credentials')]).toEqual([true, true])
  const places = [
    ...answers.map((text, at) => ({ place: `answer ${at}`, text })),
    { place: 'the log', text: cloud.log() },
    { place: 'the tables', text: dump.join('\n') },
    ...files,
  ]
  expect(places.some(({ text, place }) => place.includes('pg_wal') && text.includes('site.test'))).toBe(true)
  const found = places.flatMap(({ place, text }) =>
    Object.entries(canaries).flatMap(([which, secret]) => (writings(secret).some((form) => text.includes(form)) ? [`${which} in ${place}`] : [])),
  )
  expect(found).toEqual([])
})
