// Deployments from repositories: valid and refused sources, and what is recorded of them.
import { describe, expect, test } from 'vitest'
import { reaches, type Deployed } from '../../../../test/support/apps.ts'
import { conforms } from '../../../../test/support/contract.ts'
import { fastCloud } from '../../../../test/support/fast-cloud.ts'
import { newId } from '../../../base/ids.ts'
import { cloneUrl } from './source.ts'

const cloud = fastCloud({ COB_WARM_BROWSERS: '0', COB_GIT_BASE: 'http://127.0.0.1:8080' })

async function post(parts: Record<string, string>): Promise<{ status: number; body: { message: string } }> {
  const form = new FormData()
  for (const [name, value] of Object.entries(parts)) form.set(name, value)
  const response = await cloud.fetch('/deployments', { method: 'POST', body: form })
  return { status: response.status, body: (await response.json()) as { message: string } }
}

const GIT = { type: 'github', url: 'https://github.com/owner/repo', ref: 'main', entrypoint: 'index.ts' }
const SOURCES: [string, unknown, RegExp][] = [
  ['that is no JSON', 'secret-token{', /^source: must be a JSON object$/],
  ['of another type', { ...GIT, type: 'gitlab' }, /^source\.type: /],
  ['with a field that there is not', { ...GIT, branch: 'x' }, /^source\.branch: there is no such property$/],
  ['elsewhere', { ...GIT, url: 'https://example.com/owner/repo' }, /^source\.url: must be https:\/\/github\.com/],
  ['with a password in its address', { ...GIT, url: 'https://me:pw@github.com/owner/repo' }, /^source\.url: /],
  ['on this machine', { ...GIT, url: 'file:///etc' }, /^source\.url: /],
  ['whose address leads upwards', { ...GIT, url: 'https://github.com/../repo' }, /^source\.url: /],
  ['whose address is no repository', { ...GIT, url: 'https://github.com/owner' }, /^source\.url: /],
  ['with a ref that git takes for an option', { ...GIT, ref: '--upload-pack=x' }, /^source\.ref: must not begin with "-"$/],
  ['with a ref that is none', { ...GIT, ref: 'a..b' }, /^source\.ref: /],
  ['with an empty ref', { ...GIT, ref: '' }, /^source\.ref: /],
  ['with a path that leads upwards', { ...GIT, path: '../x' }, /^source\.path: must not lead upwards/],
  ['with an absolute path', { ...GIT, path: '/x' }, /^source\.path: must be a relative path/],
  ['without an entrypoint', { ...GIT, entrypoint: undefined }, /^source\.entrypoint: /],
  ['with an empty token', { ...GIT, auth: { method: 'github_token', token: '' } }, /^source\.auth\.token: /],
  ['with another way to log in', { ...GIT, auth: { method: 'ssh', token: 'x' } }, /^source\.auth\.method: /],
]

describe('a deployment from a repository', () => {
  test.each(['https://github.com/owner/repo', 'https://github.com/owner/repo.git', 'https://github.com/owner/repo/'])(
    'on %s succeeds and contains what is known about it',
    async (url) => {
      const source = JSON.stringify({ ...GIT, url, path: 'apps/one/', auth: { method: 'github_token', token: 'ghp_secret' } })
      const { status, body } = await post({ source, region: 'aws.us-east-1a', version: newId() })
      conforms('DeploymentCreateResponse', body)
      expect(status).toBe(201)
      expect(body).toMatchObject({ source_type: 'github', source_url: url, source_ref: 'main', source_path: 'apps/one', entrypoint_rel_path: 'index.ts' })
      expect(body).not.toHaveProperty('source_checksum')
      await reaches(cloud, (body as unknown as Deployed).id, 'running')
    },
  )

  test('sent like the CLI, with a content type on its part, is accepted', async () => {
    const source = JSON.stringify({ ...GIT, path: '.' })
    const body = `--b\r\ncontent-disposition: form-data; name="source"\r\ncontent-type: application/json\r\n\r\n${source}\r\n--b\r\ncontent-disposition: form-data; name="env_vars[FAKE_FAIL]"\r\n\r\nno\r\n--b--\r\n`
    const response = await cloud.fetch('/deployments', { method: 'POST', headers: { 'content-type': 'multipart/form-data; boundary=b' }, body })
    const made = (await response.json()) as Deployed
    expect([response.status, made.env_vars, made.source_path]).toEqual([201, { FAKE_FAIL: '' }, undefined])
  })

  test.each([
    ['Python', ([first = '', ...rest]: string[]) => `source[${[first, ...rest].join('][')}]`],
    ['Go', (path: string[]) => `source.${path.join('.')}`],
  ])('sent field by field, like the SDK for %s, is accepted', async (_, named) => {
    const fields = { ...Object.fromEntries(Object.entries({ ...GIT, path: 'apps/one' }).map(([name, value]) => [named([name]), value])), version: newId() }
    const auth = { [named(['auth', 'method'])]: 'github_token', [named(['auth', 'token'])]: 'ghp_secret' }
    const { status, body } = await post({ ...fields, ...auth })
    expect([status, body]).toEqual([
      201,
      expect.objectContaining({ source_type: 'github', source_ref: 'main', source_path: 'apps/one', entrypoint_rel_path: 'index.ts' }),
    ])
    expect(JSON.stringify(body)).not.toContain('ghp_secret')
    expect((await post({ ...fields, ...auth, [named(['auth', 'method'])]: 'ssh' })).body.message).toMatch(/^source\.auth\.method: /)
    expect((await post({ ...fields, [named(['branch'])]: 'x' })).body.message).toBe('source.branch: there is no such property')
    expect((await post({ ...fields, [named(['__proto__', 'polluted'])]: 'x' })).body.message).toMatch(/^source\.__proto__: /)
    expect((await post({ ...fields, source: JSON.stringify(GIT) })).body.message).toMatch(/^source: is given twice/)
    expect((await post({ ...fields, [named(['auth'])]: 'x', ...auth })).body.message).toMatch(/^source\.auth\.method: is given twice/)
  })

  test('may contain null for fields that are not set', async () => {
    expect((await post({ source: JSON.stringify({ ...GIT, path: null, auth: null }), version: newId() })).status).toBe(201)
  })

  test('may repeat its entrypoint, but not with another value', async () => {
    const source = JSON.stringify(GIT)
    expect((await post({ source, version: newId(), entrypoint_rel_path: GIT.entrypoint })).status).toBe(201)
    expect(await post({ source, version: newId(), entrypoint_rel_path: 'other.ts' })).toMatchObject({ status: 400 })
  })

  test.each(SOURCES)('with a source %s is refused', async (_, source, message) => {
    const { status, body } = await post({ source: typeof source === 'string' ? source : JSON.stringify(source) })
    expect([status, body.message]).toEqual([400, expect.stringMatching(message)])
  })
})

test.each([
  ['https://github.com/owner/repo', 'http://git.example/owner/repo'],
  ['https://github.com/owner/repo.git', 'http://git.example/owner/repo.git'],
  ['https://github.com/owner/my.repo-1/', 'http://git.example/owner/my.repo-1'],
  ['https://github.com/owner/.github', 'http://git.example/owner/.github'],
  ['http://git.example/owner/repo', 'http://git.example/owner/repo'],
  ['http://git.example.com/owner/repo', undefined],
  ['https://github.com.example.com/owner/repo', undefined],
  ['https://github.com/owner/repo/tree/main', undefined],
  ['https://github.com/owner/repo?x=y', undefined],
  ['https://github.com/owner/..', undefined],
  ['https://github.com/owner/../', undefined],
  ['https://github.com/./repo', undefined],
  ['https://github.com/-owner/repo#x', undefined],
  ['git@github.com:owner/repo', undefined],
])('%s is cloned from %s', (url, clone) => expect(cloneUrl(url, 'http://git.example')).toBe(clone))
