// The lines of a log. The newest stay in view unless the person has scrolled up. Output of programs is shown as text.
import { useEffect, useRef } from 'react'
import '../pages/sessions/session.css'
import { timeOfDay } from './show.tsx'
import { printable } from './text.ts'

export interface LogLine {
  timestamp: string
  message: string
  isProblem?: boolean
}

export function LogLines({ lines, empty = 'Nothing yet.', isShort = false }: { lines: readonly LogLine[]; empty?: string; isShort?: boolean }) {
  const box = useRef<HTMLDivElement>(null)
  const atEnd = useRef(true)
  useEffect(() => {
    if (atEnd.current && box.current) box.current.scrollTop = box.current.scrollHeight
  }, [lines])
  return (
    <div
      ref={box}
      className={isShort ? 'log short' : 'log'}
      role="log"
      aria-label="Lines of the log"
      aria-live="off"
      tabIndex={0}
      onScroll={({ currentTarget: { scrollTop, clientHeight, scrollHeight } }) => (atEnd.current = scrollTop + clientHeight > scrollHeight - 30)}
    >
      {lines.length === 0 ? (
        <p className="muted">{empty}</p>
      ) : (
        lines.map((line, at) => (
          <p key={at} className={line.isProblem ? 'problem' : undefined}>
            <time dateTime={line.timestamp}>{timeOfDay(new Date(line.timestamp))}</time>
            {printable(line.message)}
          </p>
        ))
      )}
    </div>
  )
}
