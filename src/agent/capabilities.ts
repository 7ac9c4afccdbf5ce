// The capabilities of an agent, by names. The control plane may be newer than an agent that it adopts, and asks it only for capabilities that it has named.
import { Fit, fitting } from './session/contract.ts'
import { contractsOf, idsOf } from './contract.ts'

/** All capabilities of this version's agent: the ids of its routes, and the settings of a browser. */
export const CAPABILITIES: readonly string[] = [...idsOf(contractsOf()), ...Object.keys(Fit.shape).map(fitting)]

/** Agents from before this list name no capabilities. They have those in this list, which never grows. */
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

/** The capabilities of this version that an agent of another version lacks. `named` are the agent's own, if it names them. */
export const lacking = (named: readonly string[] = FIRST): string[] => CAPABILITIES.filter((capability) => !named.includes(capability))
