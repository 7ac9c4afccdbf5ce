// A token opens its own subject only. Tokens that the service has issued stay valid after an update.
import { expect, test } from 'vitest'
import { liveLinks } from '../control/sessions/live/links.ts'
import { replaySigner } from '../control/sessions/replays/links.ts'
import { sessionTokens } from '../control/sessions/browsers/tokens.ts'
import { makeShortSigner, makeSigner } from './signed.ts'

const secret = Buffer.alloc(32, 7)
const id = 'abcdefghijklmnopqrstuvwx'
const session = { id, lease: 0 }
const nobody = { nameOf: async () => undefined, leaseOf: async () => undefined }

// Made by the first version. A change of these lines would invalidate every address that people have kept.
const SESSION =
  'eyJhbGciOiJIUzI1NiJ9.eyJzZXNzaW9uIjp7ImlkIjoiYWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4IiwiZnFkbiI6ImNvYi5leGFtcGxlIn0sImF1ZCI6ImNvYi1zZXNzaW9uIiwic3ViIjoiYWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4In0.NC9PgDTVRv_yjr2Ccdes-NjzSTLIGiE5HXV_2ngicFw'
const REPLAY = 'eyJhbGciOiJIUzI1NiJ9.eyJhdWQiOiJjb2ItcmVwbGF5Iiwic3ViIjoiYWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4In0.DpMyv33bQ_Yrt6P2aZQLQ70IiBmifO9TrQBRdAAGHnc'
const LIVE = { control: `${id}cuQM49nXGp-_NlKpFa4Qmorw1FJN-B9Iv`, watch: `${id}wzSdxtRy4Q0F2pb92yvu31nxahdJmnX4r` }

test('tokens of earlier versions are made again and accepted', async () => {
  expect(await sessionTokens(secret).sign(session, 'cob.example')).toBe(SESSION)
  await sessionTokens(secret).check(SESSION, id, nobody)
  expect(await replaySigner(secret).sign(id)).toBe(REPLAY)
  expect(await replaySigner(secret).subjectOf(REPLAY)).toBe(id)
  for (const access of ['control', 'watch'] as const) {
    expect(liveLinks(secret).path(session, access)).toBe(`/browser/live/${LIVE[access]}`)
    expect(liveLinks(secret).read(LIVE[access])).toEqual({ ...session, access })
  }
})

test('a token is refused for another purpose, with another secret, changed, or not a text', async () => {
  const signer = makeSigner(secret, 'cob-one')
  const token = await signer.sign(id, { more: 1 })
  expect(await signer.subjectOf(token)).toBe(id)
  expect(await makeSigner(secret, 'cob-two').subjectOf(token)).toBeUndefined()
  expect(await makeSigner(Buffer.alloc(32), 'cob-one').subjectOf(token)).toBeUndefined()
  for (const wrong of [undefined, null, 1, [token], '', 'a.b.c', `${token}x`, token.replace('.', 'A.')]) expect(await signer.subjectOf(wrong)).toBeUndefined()
  expect(await replaySigner(secret).subjectOf(SESSION)).toBeUndefined()
  await expect(sessionTokens(secret).check(REPLAY, id, nobody)).rejects.toMatchObject({ status: 401 })
})

test('a short token is refused for another purpose, with another secret, and changed anywhere', () => {
  const signer = makeShortSigner(secret, 'cob-one')
  const token = signer.sign('abc')
  expect(signer.textOf(token)).toBe('abc')
  expect(makeShortSigner(secret, 'cob-two').textOf(token)).toBeUndefined()
  expect(makeShortSigner(Buffer.alloc(32), 'cob-one').textOf(token)).toBeUndefined()
  for (let at = 0; at < token.length; at++) {
    const other = token[at] === 'x' ? 'y' : 'x'
    expect(signer.textOf(token.slice(0, at) + other + token.slice(at + 1))).toBeUndefined()
  }
  for (const wrong of ['', 'abc', token.slice(1), token.slice(0, -1), `${token}=`, token.slice(3)]) expect(signer.textOf(wrong)).toBeUndefined()
})
