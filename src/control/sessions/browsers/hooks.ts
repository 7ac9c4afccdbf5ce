// Hooks and questions between browsers and other groups.
import { hook, question } from '../../module.ts'
import type { LiveLinks } from '../live/links.ts'
import type { Browsers } from './browsers.ts'
import type { EndStep } from './end-step.ts'
import type { PoolSource } from './fleet/settings.ts'

/** Steps of the end of a session, after its sockets are closed and before its instance is ended, in the order of the modules. */
export const sessionEnding = hook<EndStep>('a session ends')
/** How the browsers of pools are made, and the names of pools. */
export const pooling = question<PoolSource & { names(ids: readonly string[]): Promise<Map<string, string | undefined>> }>('pools of browsers')
/** The address of a session's live view. */
export const livePath = question<LiveLinks['path']>("the address of a session's live view")
/** Finds the agent of a running session. */
export const reaching = question<Browsers['reach']>('the agent of a running session')
