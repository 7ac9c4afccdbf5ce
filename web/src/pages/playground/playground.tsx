// The playground: creates a browser, runs code or actions in it, shows their results, and shows the same work as a program.
import { useEffect, useRef, useState } from 'react'
import { Modal, ModalOverlay, Dialog as AriaDialog, Heading } from 'react-aria-components'
import { Link, useBlocker, useSearchParams, type Blocker } from 'react-router'
import { ApiError, call } from '../../api/client.ts'
import { queries, useCall, useChange } from '../../api/queries.ts'
import { useRights } from '../../api/rights.ts'
import { Button } from '../../ui/button.tsx'
import { useChoices } from '../../ui/choices.ts'
import { Empty } from '../../ui/empty.tsx'
import { ErrorNotice } from '../../ui/error.tsx'
import { Form } from '../../ui/form.tsx'
import { Loading } from '../../ui/list.tsx'
import { Head } from '../../ui/page.tsx'
import { done, failed } from '../../ui/toasts.tsx'
import Live from '../sessions/live.tsx'
import type { Session } from '../sessions/model.ts'
import { useProfileFields, withoutNo } from '../sessions/profile-fields.ts'
import '../sessions/session.css'
import type { Options } from './code.ts'
import './playground.css'
import { Workbench } from './workbench.tsx'

/** The tag of the playground's sessions, so that one that was left behind can be found. */
const TAGS = { made_by: 'playground' }
const REFRESH_MS = 5_000
/** The storage key of the last create's options, for the program that is shown after a reload. */
const STORED = 'cob.playground.options'

export default function Playground() {
  const [search, set] = useSearchParams()
  const may = useRights()
  const id = search.get('session') ?? undefined
  const end = (): void => set({})
  return (
    <>
      <Head title="Playground" text="Start a browser, try code or actions in it, and copy what works as a program." />
      {!may.use ? (
        <Empty title="You look on here" text="Your role in this project does not let you start browsers. An owner of the project can change that." />
      ) : id === undefined ? (
        <Start onStart={(session) => set({ session })} />
      ) : (
        <Running key={id} id={id} onEnd={end} />
      )}
    </>
  )
}

function Start({ onStart }: { onStart: (id: string) => void }) {
  const create = useChange('createBrowser', ['listBrowsers'])
  const profileFields = useProfileFields()
  const proxies = useChoices('listProxies', 'None', ({ id, name }) => [id, name ?? id])
  return (
    <section className="panel narrow" aria-label="A new browser">
      <Form
        fields={[
          { name: 'start_url', label: 'Start page', placeholder: 'https://…', hint: 'May be empty.' },
          { name: 'viewport.width', label: 'Width of the screen', kind: 'number', initial: '1280', isRequired: true },
          { name: 'viewport.height', label: 'Height of the screen', kind: 'number', initial: '800', isRequired: true },
          {
            name: 'timeout_seconds',
            label: 'Ends after so many idle seconds',
            kind: 'number',
            initial: '300',
            isRequired: true,
            hint: 'Watching counts as a use.',
          },
          ...profileFields,
          { name: 'proxy.id', label: 'Proxy', kind: 'choice', options: proxies },
          { name: 'headless', label: 'Headless', kind: 'switch' },
          { name: 'stealth', label: 'Stealth', kind: 'switch' },
        ]}
        action="Start"
        send={async ({ headless, stealth, ...body }) => {
          const options: Options = { ...withoutNo(body), ...(headless === true && { headless }), ...(stealth === true && { stealth }) }
          const { session_id: id } = await create.mutateAsync({ body: { ...options, tags: TAGS } })
          sessionStorage.setItem(STORED, JSON.stringify({ id, options }))
          onStart(id)
        }}
      />
    </section>
  )
}

/** The options with which this session was created, also after a reload. */
function optionsOf({ session_id: id, viewport, start_url: url }: Session): Options {
  try {
    const kept = JSON.parse(sessionStorage.getItem(STORED) ?? 'null') as { id: string; options: Options } | null
    if (kept?.id === id) return kept.options
  } catch {} // The storage is empty, has another session or is forbidden: use what the service says of the session.
  return { ...(viewport && { viewport: { width: viewport.width, height: viewport.height } }), ...(url && { start_url: url }) }
}

function Running({ id, onEnd }: { id: string; onEnd: () => void }) {
  const { data, error, isPending } = useCall('getBrowser', { params: { id_or_name: id } }, { everyMs: REFRESH_MS })
  const remove = useChange('deleteBrowser', ['listBrowsers'])
  const isEnded = useRef(false)
  const isGone = error instanceof ApiError && error.status === 404
  const blocker = useBlocker(
    ({ currentLocation, nextLocation }) => data !== undefined && !isGone && !isEnded.current && currentLocation.pathname !== nextLocation.pathname,
  )

  // The browser asks before the tab closes. If the person closes it, the session ends by its timeout.
  useEffect(() => {
    if (!data || isGone) return
    const ask = (event: BeforeUnloadEvent): void => {
      if (!isEnded.current) event.preventDefault()
    }
    addEventListener('beforeunload', ask)
    return () => removeEventListener('beforeunload', ask)
  }, [data, isGone])

  if (isGone)
    return (
      <Empty title="This browser has ended" text="It was ended, or nobody has used it for its time.">
        <Button look="primary" onPress={onEnd}>
          Start another one
        </Button>
      </Empty>
    )
  if (!data) return isPending ? <Loading label="the browser" /> : <ErrorNotice error={error} what="This browser" isPolled />
  const end = async (): Promise<void> => {
    await remove.mutateAsync({ params: { id_or_name: id } })
    isEnded.current = true
    done('The browser has ended')
  }
  return (
    <div className="playground">
      <div className="bench">
        <Workbench session={data} options={optionsOf(data)} />
      </div>
      <section className="view" aria-label="The browser">
        <div className="toolbar">
          <Link to={`/sessions/${id}`}>Page of the session</Link>
          <span className="space" />
          <Button look="danger" isDisabled={remove.isPending} onPress={() => void end().then(onEnd).catch(failed('The browser has not been ended'))}>
            End the browser
          </Button>
        </div>
        <Live session={data} />
      </section>
      <Leaving blocker={blocker} id={id} />
    </div>
  )
}

/** Asks when the person goes to another page while the browser runs. */
function Leaving({ blocker, id }: { blocker: Blocker; id: string }) {
  const [isBusy, busy] = useState(false)
  const end = async (): Promise<void> => {
    busy(true)
    try {
      await call('deleteBrowser', { params: { id_or_name: id } })
      await queries.invalidateQueries({ queryKey: ['listBrowsers'] })
      blocker.proceed?.()
    } finally {
      busy(false)
    }
  }
  return (
    <ModalOverlay className="overlay" isOpen={blocker.state === 'blocked'} onOpenChange={(isOpen) => !isOpen && blocker.reset?.()}>
      <Modal className="modal">
        <AriaDialog className="dialog" role="alertdialog">
          <Heading slot="title">End the browser of the playground?</Heading>
          <p>You can keep it: it is among the sessions then, and ends when nobody has used it for its time.</p>
          <div className="buttons">
            <Button onPress={() => blocker.reset?.()} autoFocus>
              Stay
            </Button>
            <Button onPress={() => blocker.proceed?.()}>Keep it running</Button>
            <Button look="danger" isDisabled={isBusy} onPress={() => void end().catch(failed('The browser has not been ended'))}>
              {isBusy ? 'Ending…' : 'End it'}
            </Button>
          </div>
        </AriaDialog>
      </Modal>
    </ModalOverlay>
  )
}
