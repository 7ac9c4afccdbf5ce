// A shell of a session in a terminal emulator: its process, its input in order, its output and its size.
import { FitAddon } from '@xterm/addon-fit'
import { Terminal } from '@xterm/xterm'
import { call, stream } from '../../api/client.ts'
import { adviceOn } from '../../ui/advice.ts'
import { noncePolicy } from './nonce.ts'

/** A shell whose page has disappeared without closing it ends after this time, or with its session. */
const SHELL_SECONDS = 4 * 60 * 60
/** The bytes of one request of input; a paste may be longer. */
const MAX_INPUT = 256 * 1024
const RESIZE_MS = 150
/** OSC sequences that would act outside the terminal: links, notifications, the clipboard. */
const SWALLOWED = [8, 9, 52, 777]

export interface Shell {
  /** Ends the shell and its programs. */
  close(): void
}

interface Hooks {
  started: () => void
  ended: (why: string) => void
  /** Shift+Escape: the person wants to move the focus out of the terminal. */
  leave: () => void
}

/** Starts a shell in the session, and shows it in `box`. */
export function openShell(id: string, box: HTMLElement, hooks: Hooks): Shell {
  const closed = new AbortController()
  const { signal } = closed
  const colors = getComputedStyle(box)
  const terminal = new Terminal({
    fontFamily: colors.getPropertyValue('--mono'),
    fontSize: 13,
    cursorBlink: false,
    scrollback: 5_000,
    screenReaderMode: true,
    theme: { background: '#161614', foreground: '#ecebe6', cursor: '#f0a04b', selectionBackground: '#5a4a33' },
    // Output never becomes a link, because its text and its target may differ.
    linkHandler: { activate: () => {} },
  })
  const fit = new FitAddon()
  terminal.loadAddon(fit)
  for (const kind of SWALLOWED) terminal.parser.registerOscHandler(kind, () => true)
  terminal.attachCustomKeyEventHandler((event) => {
    if (event.type !== 'keydown' || event.key !== 'Escape' || !event.shiftKey) return true
    event.preventDefault()
    hooks.leave()
    return false
  })
  noncePolicy(() => terminal.open(box))
  fit.fit()

  let process: string | undefined
  let pending = ''
  let isSending = false
  /** Sends one piece after the other, because two requests could overtake each other. */
  const send = async (): Promise<void> => {
    if (isSending || process === undefined) return
    isSending = true
    try {
      while (pending !== '' && !signal.aborted) {
        const piece = pending.slice(0, MAX_INPUT)
        pending = pending.slice(MAX_INPUT)
        await call('writeProcessStdin', { params: { id, process_id: process }, body: { data_b64: base64(new TextEncoder().encode(piece)) } }, { signal })
      }
    } catch (error) {
      if (!signal.aborted) hooks.ended(adviceOn(error))
    } finally {
      isSending = false
    }
  }
  terminal.onData((text) => {
    pending += text
    void send()
  })
  terminal.onBinary((text) => {
    pending += text
    void send()
  })

  let timer: ReturnType<typeof setTimeout> | undefined
  const resized = new ResizeObserver(() => {
    clearTimeout(timer)
    timer = setTimeout(() => {
      fit.fit()
      const { rows, cols } = terminal
      // A shell that has just ended cannot be resized.
      if (process !== undefined) call('resizeProcessTerminal', { params: { id, process_id: process }, body: { rows, cols } }, { signal }).catch(() => {})
    }, RESIZE_MS)
  })
  resized.observe(box)

  const kill = (): void => {
    if (process === undefined) return
    // The request outlives the page, so that closing the tab ends the shell.
    call('killProcess', { params: { id, process_id: process }, body: { signal: 'HUP' } }, { keepalive: true }).catch(() => {})
    process = undefined
  }

  const work = async (): Promise<void> => {
    const { rows, cols } = terminal
    const started = await call('spawnProcess', {
      params: { id },
      body: { command: 'bash', args: ['-i'], allocate_tty: true, rows, cols, env: { TERM: 'xterm-256color' }, timeout_sec: SHELL_SECONDS },
    })
    process = started.process_id
    if (signal.aborted) return kill()
    hooks.started()
    terminal.focus()
    void send()
    for await (const { event } of stream('streamProcessOutput', { params: { id, process_id: process } }, { signal })) {
      if (event.missed_bytes) terminal.write(`\r\n[${event.missed_bytes} bytes are missing]\r\n`)
      // Wait until the emulator has shown the data, so that a program with endless output does not fill the page's memory.
      if (event.data_b64 !== undefined) await new Promise<void>((resolve) => terminal.write(bytesOf(event.data_b64!), resolve))
      if (event.event === 'exit') {
        process = undefined
        hooks.ended(`The shell has ended with code ${event.exit_code ?? '?'}.`)
        return
      }
    }
    hooks.ended('The connection has ended.')
  }
  work().catch((error: unknown) => {
    if (!signal.aborted) hooks.ended(adviceOn(error))
  })
  addEventListener('pagehide', kill, { signal })
  return {
    close() {
      closed.abort()
      clearTimeout(timer)
      resized.disconnect()
      kill()
      terminal.dispose()
    },
  }
}

function base64(bytes: Uint8Array): string {
  let text = ''
  // The number of arguments of one call is limited.
  for (let at = 0; at < bytes.length; at += 32_768) text += String.fromCharCode(...bytes.subarray(at, at + 32_768))
  return btoa(text)
}

const bytesOf = (text: string): Uint8Array => Uint8Array.from(atob(text), (character) => character.charCodeAt(0))
