// The card of the hosted login page: one step at a time.
import { useEffect, useState, type ReactNode } from 'react'
import { createRoot } from 'react-dom/client'
import { focus } from '../focus.ts'
import { Foreign } from './question.tsx'

/** After this time a person may wonder whether the page still works. */
const SLOW_MS = 15_000

const card = document.getElementById('card')!
const root = createRoot(card)

export interface Step {
  /** The first word is the step's kind. */
  name: string
  heading: string
  lead?: ReactNode
  problem?: string
  body?: ReactNode
  /** Identifies the body when it outlives the step: a body with the same name stays while the step around it changes. */
  bodyName?: string
  screen?: string | undefined
  /** The site's name, cleaned. */
  domain?: string
}
let shown: Step = { name: '', heading: '' }
let trouble = ''

/** Shows a step: a heading that takes the focus, a sentence, a problem, the controls, and the screen. */
export function show(step: Step): void {
  const isNew = step.name !== shown.name
  shown = step
  card.dataset.step = step.name.split(' ', 1)[0]
  root.render(<Card {...step} />)
  if (!isNew) return
  document.title = step.heading
  scrollTo(0, 0)
}

/** Shows a problem of the connection; an empty text removes it. */
export function tellTrouble(text: string): void {
  if (trouble === text) return
  trouble = text
  show(shown)
}

const Card = ({ name, heading, lead, problem, body, bodyName = name, screen, domain }: Step) => (
  <>
    {domain && (
      <p className="site">
        <svg viewBox="0 0 24 24" aria-hidden="true">
          <path d="M5 10.500h14v9.500H5zM8 10.500V7.500a4 4 0 0 1 8 0v3" />
        </svg>
        <Foreign>{domain}</Foreign>
      </p>
    )}
    {/* A new element for each step, because screen readers do not announce an element that already has the focus. */}
    <h1 key={name} tabIndex={-1} ref={focus}>
      {heading}
    </h1>
    <p id="lead">{lead}</p>
    <p id="problem" role="alert">
      {problem}
    </p>
    <div key={`body ${bodyName}`}>{body}</div>
    {/* Below the buttons and links, because the live view captures the Tab key. */}
    {screen && (
      <iframe
        key={screen}
        src={screen}
        title={`Screen of the browser that logs in to ${domain}`}
        referrerPolicy="no-referrer"
        allow="clipboard-write; fullscreen"
      />
    )}
    <p id="connection" role="status">
      {trouble}
    </p>
  </>
)

export const Spinner = () => <div className="spinner" aria-hidden="true" />

/** Tells the person after a while that this step may take longer. */
export function Slow() {
  const [isSlow, set] = useState(false)
  useEffect(() => {
    const timer = setTimeout(() => set(true), SLOW_MS)
    return () => clearTimeout(timer)
  }, [])
  return (
    <>
      <Spinner />
      {isSlow && (
        <p className="muted" role="status">
          This takes longer than usual. You can leave this page open.
        </p>
      )}
    </>
  )
}
