// Videos of a session's screen. Their player is in a frame.
import { useEffect, useRef, useState } from 'react'
import { bytes } from '../../api/client.ts'
import { useCall, useChange } from '../../api/queries.ts'
import { useMay } from '../../api/sign-in.ts'
import { Button } from '../../ui/button.tsx'
import { examples } from '../../ui/code.tsx'
import { Empty } from '../../ui/empty.tsx'
import { ErrorNotice } from '../../ui/error.tsx'
import { Loading, Pages } from '../../ui/list.tsx'
import { Ago, duration, State } from '../../ui/show.tsx'
import { failed } from '../../ui/toasts.tsx'
import { saveFrom } from './download.ts'
import { isRunning, own } from './model.ts'
import type { TabProps } from './session.tsx'

const REFRESH_MS = 5_000
/** The longest wait for a video to be ready. */
const READY_MS = 60_000

export default function Replays({ session }: TabProps) {
  const params = { id: session.session_id }
  const { data, error, isPending, refetch } = useCall('listReplays', { params, query: { events: 'full' } }, { everyMs: REFRESH_MS })
  const start = useChange('startReplay', ['listReplays'])
  const stop = useChange('stopReplay', ['listReplays'])
  const [chosen, choose] = useState<string>()
  const mayRecord = useMay('startReplay') && isRunning(session)
  if (isPending) return <Loading label="the replays" />
  if (!data) return <ErrorNotice error={error} what="The list of replays" retry={() => void refetch()} isPolled />
  const recording = data.find(({ finished_at: end }) => end === null)
  const shown = data.find(({ replay_id: id }) => id === chosen)
  return (
    <>
      {mayRecord && (
        <div className="toolbar">
          {recording ? (
            <Button
              isDisabled={stop.isPending}
              onPress={() => stop.mutate({ params: { ...params, replay_id: recording.replay_id } }, { onError: failed('The recording was not stopped') })}
            >
              {stop.isPending ? 'Stopping…' : 'Stop recording'}
            </Button>
          ) : (
            <Button isDisabled={start.isPending} onPress={() => start.mutate({ params, body: {} }, { onError: failed('The recording was not started') })}>
              {start.isPending ? 'Starting…' : 'Record the screen'}
            </Button>
          )}
          {recording && <State kind="bad">Recording</State>}
        </div>
      )}
      {data.length === 0 ? (
        <Empty
          title="No replays"
          text={isRunning(session) ? 'A replay is a film of the screen. Record one here, or from a program:' : 'Nobody has recorded this session.'}
          {...(isRunning(session) && {
            examples: examples(
              `const replay = await kernel.browsers.replays.start('${session.session_id}')\nawait new Promise((done) => setTimeout(done, 5000))\nawait kernel.browsers.replays.stop(replay.replay_id, { id: '${session.session_id}' })`,
              `import time\nreplay = kernel.browsers.replays.start("${session.session_id}")\ntime.sleep(5)\nkernel.browsers.replays.stop(replay.replay_id, id="${session.session_id}")`,
              `-X POST $URL/browsers/${session.session_id}/replays`,
            ),
          })}
        />
      ) : (
        <Pages
          label="Replays"
          items={data.toReversed()}
          keyOf={({ replay_id: id }) => id}
          columns={[
            { title: 'Started', cell: ({ started_at: at }) => <Ago at={at} /> },
            {
              title: 'Length',
              cell: ({ started_at: from, finished_at: to }) =>
                to === null ? <State kind="bad">Recording</State> : duration(Date.parse(to) - Date.parse(from)),
            },
            {
              title: 'Actions',
              cell: ({ replay_id: id, finished_at: end, replay_view_url: url }) => (
                <span className="buttons">
                  <Button look="quiet" aria-pressed={id === chosen} onPress={() => choose(id === chosen ? undefined : id)}>
                    {id === chosen ? 'Close' : 'Play'}
                  </Button>
                  {end !== null && <Download session={session.session_id} id={id} url={url} />}
                </span>
              ),
            },
          ]}
        />
      )}
      {shown && <iframe key={shown.replay_id} title="Player" className="screen player" src={own(shown.replay_view_url)} allow="fullscreen" />}
    </>
  )
}

/** A video may have gigabytes. The address of its page has a token, so the browser can download it directly, without the page's memory. */
function Download({ session, id, url }: { session: string; id: string; url: string }) {
  const [isWaiting, wait] = useState(false)
  const left = useRef(new AbortController())
  useEffect(() => {
    const gone = new AbortController()
    left.current = gone
    return () => gone.abort()
  }, [])
  const download = async (): Promise<void> => {
    const { signal } = left.current
    wait(true)
    try {
      await ready({ id: session, replay_id: id }, signal)
      saveFrom(own(url).replace('/view?', '/video?'), `replay-${id}.mp4`)
    } catch (error) {
      if (!signal.aborted) throw error
    } finally {
      wait(false)
    }
  }
  return (
    <Button look="quiet" isDisabled={isWaiting} onPress={() => void download().catch(failed('The replay was not downloaded'))}>
      {isWaiting ? 'Getting it ready…' : 'Download'}
    </Button>
  )
}

/** Resolves when the video can be downloaded: the service still stores it for a moment after the recording has ended. */
async function ready(params: { id: string; replay_id: string }, signal: AbortSignal): Promise<void> {
  const until = Date.now() + READY_MS
  while (true) {
    const { status, headers, body } = await bytes('downloadReplay', { params }, { headers: { range: 'bytes=0-0' }, signal })
    await body?.cancel()
    if (status !== 202) return
    if (Date.now() > until) throw new Error('The film is not ready yet. Try again in a minute.')
    await new Promise((resolve) => setTimeout(resolve, Number(headers.get('retry-after') ?? 1) * 1_000))
    signal.throwIfAborted()
  }
}
