// The promises of every driver, kept by containers of a real Docker daemon (script/test-docker starts it).
import { execFileSync } from 'node:child_process'
import { basename } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { processes } from '../../src/agent/process/contract.ts'
import { readConfig } from '../../src/base/config.ts'
import { fixedKeys } from '../../src/base/keys.ts'
import { silentLog } from '../../src/base/log.ts'
import { makeSealer } from '../../src/base/sealed.ts'
import { call } from '../../src/http/client.ts'
import { storedEndpoints } from '../../src/http/stored-endpoint.ts'
import { containerDriver } from '../../src/instances/containers/driver.ts'
import { dockerEngine } from '../../src/instances/docker/docker.ts'
import type { Driver, Instance } from '../../src/instances/driver.ts'
import { driverSuite, picture, spec } from '../../src/instances/driver.suite.ts'

const CALL_MS = 60_000
const endpoints = storedEndpoints(makeSealer(fixedKeys(Buffer.alloc(32, 1)), 'endpoints'))
const docker = (...args: string[]): string => execFileSync('docker', args, { encoding: 'utf8', timeout: CALL_MS })
const scopes = new Set<string>()

function driverOf(scope: string, more: Record<string, string> = {}): Driver {
  scopes.add(scope)
  const config = readConfig({ ...process.env, COB_DRIVER: 'docker', ...more })
  return containerDriver({ config, engine: dockerEngine({ config, scope, replica: 'test', log: silentLog }), endpoints, log: silentLog })
}
const scopeOf = (path: string): string =>
  basename(path)
    .toLowerCase()
    .replace(/[^a-z0-9]/g, '')

driverSuite(
  'docker',
  ({ root }) => driverOf(scopeOf(root)),
  (_, id) => docker('ps', '-aq', '--filter', `label=cob.id=${id}`).split('\n').filter(Boolean),
)

afterAll(() => {
  for (const scope of scopes) {
    expect(docker('ps', '-aq', '--filter', `label=cob.scope=${scope}`)).toBe('')
    docker('network', 'rm', `cob-${scope}`)
  }
})

describe('an instance', () => {
  let driver: Driver
  let instance: Instance
  beforeAll(async () => {
    driver = driverOf('wall')
    instance = await driver.start(spec(), AbortSignal.timeout(CALL_MS))
  })
  afterAll(async () => {
    await instance[Symbol.asyncDispose]()
    await driver[Symbol.asyncDispose]()
  })

  /** Runs a shell line in the session. */
  async function shell(line: string): Promise<{ code: number; out: string }> {
    const body = { command: '/bin/sh', args: ['-c', line], timeout_sec: 30 }
    const { exit_code: code, stdout_b64: out } = await call(instance.agent, processes.execProcess, { body }, { signal: AbortSignal.timeout(CALL_MS) })
    return { code: code!, out: Buffer.from(out ?? '', 'base64').toString() }
  }

  test('has no rights, a read-only system, and a filter of system calls; its browser has its own sandbox', async () => {
    const { out } = await shell(
      "grep -E '^(CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status; id -u; touch /usr/x 2>&1; unshare --user --mount true 2>&1; grep -laz -- '^--no-sand[b]ox$' /proc/[0-9]*/cmdline 2>/dev/null | wc -l",
    )
    expect(out).toMatch(/CapEff:\s+0+\n/)
    expect(out).toMatch(/CapBnd:\s+0+\n/)
    expect(out).toMatch(/NoNewPrivs:\s+1\n/)
    expect(out).toMatch(/Seccomp:\s+2\n/)
    expect(out).toContain('Read-only file system')
    expect(out.trim().endsWith('\n0')).toBe(true)
  })

  test('cannot look into the agent, nor find its keys', async () => {
    const { out } = await shell(
      'agent=$(pgrep -f agent.mjs | head -1); cat /proc/$agent/environ /proc/$agent/mem 2>&1; ls /proc/$agent/fd 2>&1; grep -ral BEGIN.PRIVATE.KEY /proc/*/environ /proc/*/cmdline /run /tmp /home 2>/dev/null; true',
    )
    expect(out.match(/Permission denied/g)).toHaveLength(3)
    expect(out).not.toContain('PRIVATE')
  })

  test('reaches neither the host, nor another instance, nor metadata addresses; another one does not reach it', async () => {
    await using other = await driver.start(spec(), AbortSignal.timeout(CALL_MS))
    const { host } = other.agent as { host: string }
    const gateway = host.replace(/\d+$/, '1')
    const tried = [`${gateway} 22`, `${gateway} 2375`, `${host} 2628`, `${host} 9222`, '169.254.169.254 80', '10.1.2.3 80', '192.168.1.1 443']
    const lines = tried.map((to) => `timeout 5 bash -c ': </dev/tcp/${to.replace(' ', '/')}' 2>/dev/null && echo 'reached ${to}'`)
    const { out } = await shell(`${lines.join('\n')}\necho done`)
    expect(out).toBe('done\n')
  })
})

test('an instance whose port is published is reached there, once its program answers', async () => {
  const driver = driverOf('published', { COB_DOCKER_PUBLISH: '127.0.0.1' })
  {
    await using instance = await driver.start(spec(), AbortSignal.timeout(CALL_MS))
    expect(instance.agent).toMatchObject({ host: '127.0.0.1' })
    expect((await picture(instance)).status).toBe(200)
  }
  await driver[Symbol.asyncDispose]()
})
