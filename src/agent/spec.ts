// The agreement between a driver and the agent in its instance: the agent's settings (one JSON object in COB_AGENT), and its display.
import * as z from 'zod'
import { Viewport } from './session/contract.ts'

export const AgentSpec = z.object({
  id: z.string(),
  viewport: Viewport,
  /** The largest viewport this display can be resized to. */
  maxScreen: z.object({ width: z.number(), height: z.number() }),
  /** The program of the full browser. */
  chromium: z.string(),
  /**
   * It starts with the headless shell, without a display. `program`: that shell. `userAgent`: that of the full browser of the same version, which pages are
   * told.
   */
  lean: z.object({ program: z.string(), userAgent: z.string() }).optional(),
  logLevel: z.string(),
  /** Ports of the API on the host's addresses; the agent serves the session's own URLs there, inside. */
  apiPorts: z.array(z.number()),
  /** The agent ends itself when no service has watched it for the session's timeout plus this time. */
  graceSeconds: z.number(),
  /** The TCP port on which it listens, on all addresses and with keys; absent: it listens on the socket that is its standard input. */
  port: z.number().optional(),
  /** It starts its browser when the driver calls `beginSession`. */
  waits: z.boolean().optional(),
  /** The agent ends after its rehearsal: it was started only to have its code compiled. */
  isTrial: z.boolean().optional(),
})
export type AgentSpec = z.infer<typeof AgentSpec>

/** The largest screen, in pixels; RandR may choose any size up to it. */
export interface MaxScreen {
  width: number
  height: number
}

/** The PATH of programs that callers run: the agent's own, with the session's /usr/local in place of the machine's. */
export const programPath = (own = ''): string => own.replace('/opt/local/bin', '/usr/local/bin')

export const DISPLAY = ':0'
export const DISPLAY_SOCKET = '/tmp/.X11-unix/X0'
/** A folder in memory. */
export const FRAMEBUFFER_DIR = '/run/cob/fb'
export const FRAMEBUFFER = `${FRAMEBUFFER_DIR}/Xvfb_screen0`

/** The link that /etc/localtime is, to a file of {@link ZONES_DIR}. Chromium watches it. */
export const LOCAL_TIME = '/run/cob/localtime'
export const ZONES_DIR = '/usr/share/zoneinfo'

/** Named pipes of programs that the agent starts for callers; a folder in memory. */
export const PIPE_DIR = '/run/cob/pipes'

/** Xvfb's output. In memory; the agent keeps it small. */
export const DISPLAY_LOG = '/run/cob/display.log'

/** Xvfb's command line. The driver starts it beside the agent, so that it is up by the time Node is. */
export const xvfbCommand = ({ width, height }: MaxScreen): string[] => [
  'Xvfb',
  DISPLAY,
  '-screen',
  '0',
  `${width}x${height}x24`,
  '-fbdir',
  FRAMEBUFFER_DIR,
  // No program here draws by GLX (Chromium has its own SwiftShader), and its library is half of the server's start time and memory.
  '-extension',
  'GLX',
  '-nolisten',
  'tcp',
  '-ac',
  '-noreset',
  '-dpi',
  '96',
]
