// The tools of the agent, once each. A tool is a folder with a contract; its handlers are in serve.ts under the same name.
import type { Contract } from '../http/route.ts'
import { computer } from './computer/contract.ts'
import { curl } from './curl/contract.ts'
import { extensions, extensionStaging } from './extensions/contract.ts'
import { filesystem } from './fs/contract.ts'
import { login } from './login/contract.ts'
import { logs } from './logs/contract.ts'
import { playwright } from './playwright/contract.ts'
import { processes } from './process/contract.ts'
import { profile } from './profile/contract.ts'
import { recording } from './recording/contract.ts'
import { session } from './session/contract.ts'
import { telemetry, telemetryFeed } from './telemetry/contract.ts'
import { thumbnail } from './thumbnail/contract.ts'

interface Tool {
  contract: Contract
  /** Whether clients of the session call it: a caller that gives the browser back to its pool loses these calls. The others are the service's own. */
  isForClients?: true
  /** The kind of telemetry events for its calls: driving the browser, or managing its environment. */
  reportedAs?: 'driving' | 'managing'
}

export const TOOLS = {
  session: { contract: session },
  computer: { contract: computer, isForClients: true, reportedAs: 'driving' },
  curl: { contract: curl, isForClients: true, reportedAs: 'driving' },
  playwright: { contract: playwright, isForClients: true, reportedAs: 'driving' },
  filesystem: { contract: filesystem, isForClients: true, reportedAs: 'managing' },
  processes: { contract: processes, isForClients: true, reportedAs: 'managing' },
  login: { contract: login },
  logs: { contract: logs, isForClients: true, reportedAs: 'managing' },
  recording: { contract: recording, reportedAs: 'managing' },
  extensions: { contract: extensions, isForClients: true, reportedAs: 'managing' },
  extensionStaging: { contract: extensionStaging, reportedAs: 'managing' },
  profile: { contract: profile, reportedAs: 'managing' },
  telemetry: { contract: telemetry, isForClients: true, reportedAs: 'managing' },
  telemetryFeed: { contract: telemetryFeed },
  thumbnail: { contract: thumbnail },
} satisfies Record<string, Tool>

/** The contracts of the tools that `wanted` picks; of all tools without it. */
export const contractsOf = (wanted: (tool: Tool) => boolean = () => true): Contract[] =>
  Object.values<Tool>(TOOLS).flatMap((tool) => (wanted(tool) ? [tool.contract] : []))

/** The operation ids of contracts. */
export const idsOf = (contracts: readonly Contract[]): string[] => contracts.flatMap((contract) => Object.values(contract).map(({ id }) => id))
