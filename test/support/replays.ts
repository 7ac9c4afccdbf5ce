// Starts and stops recordings of sessions, and downloads and decodes their videos.
import type Kernel from '@onkernel/sdk'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'vitest'
import { sleep, until } from '../../src/base/wait.ts'
import type { Cloud } from './cloud.ts'
import { conforms } from './contract.ts'
import { decode, keep, probe, type Probed } from './films.ts'
import { servePages } from './pages.ts'
import { openSession, type Session } from './session.ts'

/** The limit for an ended recording to become a video. */
const FILM_MS = 20_000

/** The colours of test/pages/clock.html, one for each second of the clock in turn. */
export const CLOCK_COLOURS = [[255, 0, 0], [0, 255, 0], [0, 0, 255], [255, 255, 0], [255, 0, 255], [0, 255, 255]] // prettier-ignore
/** A small screen, and a place near its corner. */
export const SMALL = { headless: true, viewport: { width: 1000, height: 600 }, timeout_seconds: 300 }
export const CORNER = { x: 40, y: 560 }

type Replay = Kernel.Browsers.ReplayStartResponse
type Of = Pick<Session, 'id'>

export interface TestReplays extends AsyncDisposable {
  /** Opens a session with clock.html. */
  clockSession(options?: Parameters<typeof openSession>[1], hash?: string): Promise<Session>
  start(of: Of, options?: object): Promise<Replay>
  stop(of: Of, replay: Replay): Promise<void>
  found(of: Of, replay: Replay): Promise<Replay>
  /** Downloads a replay when it is ready, and decodes all of it. */
  film(of: Of, replay: Replay): Promise<Probed & { file: string; seconds: number }>
}

export async function testReplays(cloud: Cloud): Promise<TestReplays> {
  const { replays } = cloud.client.browsers
  const pages = await servePages()
  const dir = mkdtempSync(join(tmpdir(), 'cob-films-'))
  return {
    async clockSession(options = SMALL, hash = '') {
      const session = await openSession(cloud, options)
      await session.page.goto(pages.url('clock.html') + hash)
      await sleep(300)
      return session
    },
    async start(of, options = {}) {
      const replay = await replays.start(of.id, options)
      conforms('ReplayStartResponse', replay)
      return replay
    },
    stop: (of, { replay_id }) => replays.stop(replay_id, { id: of.id }),
    async found(of, { replay_id }) {
      const all = await replays.list(of.id)
      conforms('ReplayListResponse', all)
      return all.find((one) => one.replay_id === replay_id)!
    },
    async film(of, { replay_id }) {
      const ready = async () => {
        const answer = await cloud.fetch(`/browsers/${of.id}/replays/${replay_id}`)
        return answer.status === 202 ? false : answer
      }
      const response = await until('the video', FILM_MS, ready, { everyMs: 100 })
      expect(response.status).toBe(200)
      expect(response.headers.get('content-type')).toBe('video/mp4')
      const file = keep(join(dir, `${replay_id}.mp4`), Buffer.from(await response.arrayBuffer()))
      await decode(file)
      return { file, ...(await probe(file)) }
    },
    async [Symbol.asyncDispose]() {
      await pages[Symbol.asyncDispose]()
      rmSync(dir, { recursive: true, force: true })
    },
  }
}
