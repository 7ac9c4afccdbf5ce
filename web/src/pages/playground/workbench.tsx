// The editor for code or actions, which runs them and shows the result.
import { useEffect, useRef, useState } from 'react'
import { Tab, TabList, TabPanel, Tabs } from 'react-aria-components'
import { call } from '../../api/client.ts'
import type { AnswerOf, InputOf } from '../../api/contracts.ts'
import { adviceOn } from '../../ui/advice.ts'
import { Button } from '../../ui/button.tsx'
import { CodeTabs } from '../../ui/code.tsx'
import { Field } from '../../ui/field.tsx'
import type { Session } from '../sessions/model.ts'
import { codeOf, type Options, type Work } from './code.ts'
import { ACTIONS, FIRST_ACTIONS, FIRST_CODE, withAction, type ActionKind } from './samples.ts'

type Kind = Work['kind']
type Answer = AnswerOf<'executePlaywright'>
type Batch = InputOf<'batchActions'>['body']

interface Outcome {
  ms: number
  answer?: Answer
  /** Why there is no answer. */
  problem?: string
}

/** The number of characters of a result that the page shows. */
const MAX_SHOWN = 256 * 1024
/** The service allows 300 s for a run, plus the wait for earlier runs. */
const RUN_MS = 330_000
const RUN_SECONDS = 120

/** The text is kept as long as the tab is open, so that leaving the page does not lose it. */
function useKept(name: string, first: string): [string, (text: string) => void] {
  const [text, set] = useState(() => {
    try {
      return sessionStorage.getItem(name) ?? first
    } catch {
      return first
    }
  })
  const change = (next: string): void => {
    set(next)
    try {
      sessionStorage.setItem(name, next)
    } catch {} // The text is too long, or storage is forbidden: it is kept until the page is left.
  }
  return [text, change]
}

function actionsIn(text: string): { actions: unknown[]; problem?: string } {
  try {
    const actions = JSON.parse(text) as unknown
    return Array.isArray(actions) ? { actions } : { actions: [], problem: 'Write a list: [ … ].' }
  } catch (error) {
    return { actions: [], problem: `This is not JSON: ${(error as Error).message}` }
  }
}

export function Workbench({ session, options }: { session: Session; options: Options }) {
  const [kind, choose] = useState<Kind>('playwright')
  const [code, setCode] = useKept('cob.playground.code', FIRST_CODE)
  const [text, setText] = useKept('cob.playground.actions', FIRST_ACTIONS)
  const [outcome, show] = useState<Outcome>()
  const [isRunning, running] = useState(false)
  const ended = useRef<AbortController>(undefined)
  useEffect(() => () => ended.current?.abort(), [])

  const { actions, problem } = actionsIn(text)
  const isReady = kind === 'playwright' ? code.trim() !== '' : problem === undefined && actions.length > 0
  const work: Work = kind === 'playwright' ? { kind, code } : { kind, actions }

  const run = async (): Promise<void> => {
    if (!isReady || isRunning) return
    const began = performance.now()
    ended.current = new AbortController()
    const signal = AbortSignal.any([ended.current.signal, AbortSignal.timeout(RUN_MS)])
    running(true)
    show(undefined)
    const params = { id: session.session_id }
    try {
      if (kind === 'playwright') {
        const answer = await call('executePlaywright', { params, body: { code, timeout_sec: RUN_SECONDS } }, { signal })
        show({ ms: performance.now() - began, answer })
      } else {
        await call('batchActions', { params, body: { actions } as Batch }, { signal })
        show({ ms: performance.now() - began })
      }
    } catch (error) {
      if (!ended.current.signal.aborted) show({ ms: performance.now() - began, problem: adviceOn(error) })
    } finally {
      running(false)
    }
  }
  return (
    <form
      className="workbench"
      onSubmit={(event) => {
        event.preventDefault()
        void run()
      }}
      onKeyDown={(event) => {
        if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey)) return
        event.preventDefault()
        void run()
      }}
    >
      <Tabs selectedKey={kind} onSelectionChange={(key) => choose(key as Kind)}>
        <TabList aria-label="What to run" className="tabs">
          <Tab id="playwright" className="tab">
            Playwright code
          </Tab>
          <Tab id="actions" className="tab">
            Actions
          </Tab>
        </TabList>
        <TabPanel id="playwright">
          <Field
            label="Code"
            rows={14}
            value={code}
            onChange={setCode}
            spellCheck="false"
            hint="The body of an async function, with page, context and browser. What it returns is the result."
          />
        </TabPanel>
        <TabPanel id="actions">
          <div className="add" role="group" aria-label="Add an action">
            {(Object.keys(ACTIONS) as ActionKind[]).map((each) => (
              <Button key={each} onPress={() => setText(withAction(text, each))}>
                {each.replaceAll('_', ' ')}
              </Button>
            ))}
          </div>
          <Field
            label="Actions"
            rows={14}
            value={text}
            onChange={setText}
            spellCheck="false"
            hint="A JSON list. They are done one after the other, with the mouse and the keyboard of the screen; positions are its pixels."
            {...(problem !== undefined && { problem })}
          />
        </TabPanel>
      </Tabs>
      <div className="buttons">
        <Button look="primary" type="submit" isDisabled={isRunning || !isReady}>
          {isRunning ? 'Running…' : 'Run'}
        </Button>
        <span className="muted hint">Ctrl+Enter runs it.</span>
      </div>
      <section aria-label="What it has done" aria-live="polite">
        {outcome && <Result {...outcome} />}
      </section>
      <section aria-label="The same as a program">
        <h2>The same as a program</h2>
        <CodeTabs examples={codeOf(options, work, session.session_id)} />
      </section>
    </form>
  )
}

const cut = (text: string): string => (text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN)}…` : text)

function Result({ ms, answer, problem }: Outcome) {
  const isGood = problem === undefined && answer?.success !== false
  return (
    <div className={isGood ? 'result' : 'result bad'}>
      <h2>
        {isGood ? 'Done' : 'It has failed'} <small className="muted">after {Math.round(ms)} ms</small>
      </h2>
      {problem !== undefined && <p className="problem">{problem}</p>}
      {answer?.error !== undefined && <Output title="Error" text={answer.error} />}
      {answer?.success && answer.result !== undefined && <Output title="Result" text={JSON.stringify(answer.result, undefined, 2)} />}
      {answer?.stdout && <Output title="Printed" text={answer.stdout} />}
      {answer?.stderr && <Output title="Printed as errors" text={answer.stderr} />}
    </div>
  )
}

const Output = ({ title, text }: { title: string; text: string }) => (
  <>
    <h3>{title}</h3>
    <pre tabIndex={0} role="region" aria-label={title}>
      {cut(text)}
    </pre>
  </>
)
