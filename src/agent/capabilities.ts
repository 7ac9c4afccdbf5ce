// What an agent can do, by names: the control plane may be newer than an agent that it adopts. It asks an agent only for what that agent has named.
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
import { Fit, fitting, session } from './session/contract.ts'
import { telemetry, telemetryFeed } from './telemetry/contract.ts'
import { thumbnail } from './thumbnail/contract.ts'

const CONTRACTS: readonly Contract[] = [
  session,
  computer,
  curl,
  playwright,
  filesystem,
  processes,
  login,
  logs,
  recording,
  extensions,
  extensionStaging,
  profile,
  telemetry,
  telemetryFeed,
  thumbnail,
]

/** Everything that an agent of this version can do: the ids of its routes, and the settings that it can fit a browser to. */
export const CAPABILITIES: readonly string[] = [
  ...CONTRACTS.flatMap((contract) => Object.values(contract).map(({ id }) => id)),
  ...Object.keys(Fit.shape).map(fitting),
]

/** Agents before this list existed name nothing. They can do what is on it; it never grows. */
const FIRST = `
  devTools agentStatus fitSession watchSession batchActions captureScreenshot clickMouse dragMouse getMousePosition moveMouse pressKey readClipboard
  scroll setCursorVisibility typeText writeClipboard curl curlRawGet curlRawPost curlRawPut curlRawPatch curlRawDelete executePlaywright
  createDirectory deleteDirectory deleteFile downloadDirZip fileInfo listFiles moveFile readFile setFilePermissions uploadFiles uploadZip writeFile
  startFsWatch streamFsEvents stopFsWatch execProcess spawnProcess processStatus writeProcessStdin streamProcessOutput killProcess
  resizeProcessTerminal streamLogs startRecording recordingStatus readRecording stopRecording forgetRecording fitSession.viewport
  fitSession.fullscreen fitSession.start_url fitSession.timeout_seconds fitSession.chrome_policy
`
  .trim()
  .split(/\s+/)

/** What an agent of another version lacks, of all that this version asks for. `named` is what it says that it can do, if it says so. */
export const lacking = (named: readonly string[] = FIRST): string[] => CAPABILITIES.filter((capability) => !named.includes(capability))
