// The CDP commands and events that the agent uses, with the types of Chromium's own package. Only types: the package is not loaded.
import type { ProtocolMapping } from 'devtools-protocol/types/protocol-mapping.js'

export type { Protocol } from 'devtools-protocol'

/** A command of the agent. Add another one here to use it. */
export type Method =
  | 'Browser.close'
  | 'Browser.getVersion'
  | 'Browser.getWindowBounds'
  | 'Browser.getWindowForTarget'
  | 'Browser.setDownloadBehavior'
  | 'Browser.setWindowBounds'
  | 'Extensions.getExtensions'
  | 'Extensions.loadUnpacked'
  | 'Extensions.uninstall'
  | 'Fetch.continueRequest'
  | 'Fetch.continueResponse'
  | 'Fetch.continueWithAuth'
  | 'Fetch.enable'
  | 'Fetch.failRequest'
  | 'Fetch.takeResponseBodyAsStream'
  | 'IO.close'
  | 'IO.read'
  | 'Input.synthesizeScrollGesture'
  | 'Network.enable'
  | 'Network.getCookies'
  | 'Network.loadNetworkResource'
  | 'Network.setBypassServiceWorker'
  | 'Network.streamResourceContent'
  | 'Page.bringToFront'
  | 'Page.createIsolatedWorld'
  | 'Page.enable'
  | 'Page.navigate'
  | 'Page.stopLoading'
  | 'Runtime.evaluate'
  | 'Target.activateTarget'
  | 'Target.attachToTarget'
  | 'Target.closeTarget'
  | 'Target.createTarget'
  | 'Target.detachFromTarget'
  | 'Target.disposeBrowserContext'
  | 'Target.getBrowserContexts'
  | 'Target.getTargets'
  | 'Target.setDiscoverTargets'

/** An event that the agent listens to. */
export type EventName =
  | 'Browser.downloadProgress'
  | 'Browser.downloadWillBegin'
  | 'Fetch.authRequired'
  | 'Fetch.requestPaused'
  | 'Network.dataReceived'
  | 'Network.loadingFailed'
  | 'Network.loadingFinished'
  | 'Network.requestWillBeSentExtraInfo'
  | 'Network.responseReceived'
  | 'Network.responseReceivedExtraInfo'
  | 'Page.frameStartedNavigating'
  | 'Target.targetCreated'
  | 'Target.targetDestroyed'
  | 'Target.targetInfoChanged'

/** The parameters of a command; `{}` for a command without any. */
export type Params<M extends Method> = ProtocolMapping.Commands[M]['paramsType'] extends [(infer P extends object)?] ? P : object
export type Result<M extends Method> = ProtocolMapping.Commands[M]['returnType']
export type EventParams<E extends EventName> = ProtocolMapping.Events[E][0]
