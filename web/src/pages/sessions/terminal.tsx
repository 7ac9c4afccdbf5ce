// A shell inside a session. The emulator is large, so only this tab loads it.
import '@xterm/xterm/css/xterm.css'
import { useEffect, useRef, useState } from 'react'
import { Button } from '../../ui/button.tsx'
import type { TabProps } from './session.tsx'
import { openShell, type Shell } from './shell.ts'

export default function TerminalTab({ session }: TabProps) {
  const box = useRef<HTMLDivElement>(null)
  const leave = useRef<HTMLDivElement>(null)
  const [run, again] = useState(0)
  const [state, setState] = useState<{ kind: 'starting' | 'running' | 'ended'; text: string }>({ kind: 'starting', text: 'Starting a shell…' })
  const id = session.session_id

  useEffect(() => {
    setState({ kind: 'starting', text: 'Starting a shell…' })
    const shell: Shell = openShell(id, box.current!, {
      started: () => setState({ kind: 'running', text: 'Shift+Escape leaves the terminal.' }),
      ended: (text) => setState({ kind: 'ended', text }),
      leave: () => leave.current?.querySelector('button')?.focus(),
    })
    return () => shell.close()
  }, [id, run])

  return (
    <>
      <div className="toolbar" ref={leave}>
        <Button onPress={() => again(run + 1)}>{state.kind === 'ended' ? 'Start again' : 'Restart'}</Button>
        <span className="muted" role="status">
          {state.text}
        </span>
      </div>
      <div className="terminal-box" ref={box} />
    </>
  )
}
