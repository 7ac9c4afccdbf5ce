// What an agent is told when it starts: one JSON object in COB_AGENT.
import { z } from 'zod'
import { Viewport } from './session/contract.ts'

export const AgentSpec = z.object({
  id: z.string(),
  viewport: Viewport,
  /** The largest viewport this display can be resized to. */
  maxScreen: z.object({ width: z.number(), height: z.number() }),
  chromium: z.string(),
  logLevel: z.string(),
  /** For drivers that reach the agent over TCP. */
  token: z.string().optional(),
})
export type AgentSpec = z.infer<typeof AgentSpec>
