// The browsers of logins and health checks: sessions of the connection's project, whose tools callers may not use.
import type * as z from 'zod'
import { login } from '../../../agent/login/contract.ts'
import { until } from '../../../base/wait.ts'
import { call, type Input } from '../../../http/client.ts'
import { Fault } from '../../../http/fault.ts'
import type { Endpoint } from '../../../http/endpoint.ts'
import type { AcquiredSession, Route } from '../../../http/route.ts'
import type { Browsers } from '../../sessions/browsers/browsers.ts'
import { CreateBrowser } from '../../sessions/browsers/contract.ts'
import type { BrowserRow } from '../../sessions/browsers/rows.ts'
import { StartReplay } from '../../sessions/replays/contract.ts'
import type { Replays } from '../../sessions/replays/replays.ts'
import { BrowserGone, type LoginBrowser, type LoginBrowsers } from './engine/browser.ts'

/** A flow lasts at most 20 minutes. If nobody ends its browser, it times out soon afterwards. */
const TIMEOUT_SECONDS = 25 * 60
/** Longest wait for the save of a profile: one attempt may take five minutes, and attempts are made for ten. */
const SAVED_MS = 11 * 60_000
const SAVED_LOOK_MS = 100
/**
 * Disables Chromium's own dialogs in a login: nobody would answer them, and the page would wait. HTTP authentication is off, also for requests of a page's
 * script. Permissions are refused; a script that prints continues.
 */
export const NO_PROMPTS = {
  AuthSchemes: '',
  PrintingEnabled: false,
  DefaultNotificationsSetting: 2,
  DefaultGeolocationSetting: 2,
  DefaultClipboardSetting: 2,
  DefaultLocalFontsSetting: 2,
  DefaultWindowManagementSetting: 2,
  DefaultFileSystemReadGuardSetting: 2,
  DefaultFileSystemWriteGuardSetting: 2,
  DefaultWebBluetoothGuardSetting: 2,
  DefaultWebUsbGuardSetting: 2,
  DefaultWebHidGuardSetting: 2,
  DefaultSerialGuardSetting: 2,
  AudioCaptureAllowed: false,
  VideoCaptureAllowed: false,
  ScreenCaptureAllowed: false,
}
const POLICY = {
  ...NO_PROMPTS,
  // Chromium stores nothing that is typed: otherwise it would suggest it at other fields, readable for everybody, and save it with the profile.
  AutofillAddressEnabled: false,
  AutofillCreditCardEnabled: false,
  PasswordManagerEnabled: false,
  // It stores no visited addresses either: a form that is sent by GET has the password in its address, and the history is part of the profile.
  SavingBrowserHistoryDisabled: true,
  // A person at the live view has a keyboard. By a script in the address bar, the developer tools or an extension they could read a stored password in its
  // field. DeveloperToolsAvailability cannot be used: it would also close the agent's own pipe to Chromium. Scripts of pages, also in their links, run as
  // before.
  URLBlocklist: ['javascript:*', 'view-source:*', 'devtools://*', 'chrome://*', 'chrome-untrusted://*', 'file://*'],
  ExtensionInstallBlocklist: ['*'],
}
/** A window of a usual size for logins. */
const VIEWPORT = { width: 1280, height: 800 }

export interface LoginBrowsersSettings {
  browsers: Pick<Browsers, 'create' | 'delete' | 'reach'>
  /** A session of any project, also one that has ended. */
  findSession: (id: string) => Promise<BrowserRow | undefined>
  /** Makes the session save its profile when it ends. @throws when it has ended */
  saveAtEnd: (session: AcquiredSession & { endpoint: Endpoint }) => Promise<unknown>
  startReplay: Replays['start']
  /** The path of its live view. */
  livePath: (row: Pick<BrowserRow, 'id' | 'lease'>, access: 'act' | 'watch') => string
  /** The origin for addresses of recordings, which are not given to anybody here. */
  origin: () => string
}

type LoginRoute = (typeof login)[keyof typeof login]
type ReplyOf<R extends Route> = R['reply'] extends { schema: infer S extends z.ZodType } ? z.output<S> : void

const hasEnded = (row: BrowserRow | undefined): boolean => row === undefined || row.deleted_at !== null || row.state !== 'running'
const isGone = (error: unknown): boolean => error instanceof Fault && error.code === 'not_found'

export function loginBrowsers({ browsers, findSession, saveAtEnd, startReplay, livePath, origin }: LoginBrowsersSettings): LoginBrowsers {
  /** Calls the session's agent. The session counts as in use meanwhile, and wakes if it sleeps. */
  async function ask<R extends LoginRoute>(id: string, route: R, input: Input<R>, signal: AbortSignal): Promise<ReplyOf<R>> {
    const { endpoint, release } = await browsers.reach(undefined, id, { isForLogins: true }).catch((error: unknown) => {
      throw isGone(error) ? new BrowserGone('the browser has ended') : error
    })
    try {
      const both = AbortSignal.any([signal, AbortSignal.timeout(route.deadlineMs)])
      return (await call(endpoint, route as LoginRoute, input as never, { signal: both })) as ReplyOf<R>
    } catch (error) {
      // The call may have failed because the session has ended.
      if (!signal.aborted && hasEnded(await findSession(id))) throw new BrowserGone('the browser has ended', { cause: error })
      throw error
    } finally {
      release()
    }
  }

  const browserOf = (id: string): LoginBrowser => ({
    id,
    open: async (url, { newTab }, signal) => (await ask(id, login.openLoginPage, { body: { url, new_tab: newTab } }, signal)).error,
    read: (signal) => ask(id, login.readLoginPage, {}, signal),
    act: (actions, hosts, signal) => ask(id, login.actOnLoginPage, { body: { actions: [...actions], hosts: [...hosts] } }, signal),
    settle: (limitMs, signal) => ask(id, login.settleLoginPage, { body: { limit_ms: limitMs } }, signal),
    marks: (hosts, signal) => ask(id, login.readLoginMarks, { body: { hosts: [...hosts] } }, signal),
    end: (signal) => ask(id, login.endLogin, {}, signal),
  })

  return {
    async make({ project, profileId, flowId, proxyId, stealth, telemetry, record }, signal) {
      const wanted = CreateBrowser.parse({
        profile: { id: profileId },
        stealth,
        viewport: VIEWPORT,
        timeout_seconds: TIMEOUT_SECONDS,
        start_url: 'about:blank',
        ...(proxyId !== undefined && { proxy: { id: proxyId } }),
        ...(telemetry !== undefined && { telemetry }),
      })
      // The policies are passed to the rules directly: callers may not set policies for extensions.
      const made = await browsers.create({ project }, { ...wanted, chrome_policy: POLICY }, origin(), signal, flowId)
      const id = made.session_id
      try {
        const replay = record ? await startReplay(project, id, StartReplay.parse({}), origin(), signal) : undefined
        return { browser: browserOf(id), replayId: replay?.replay_id, capturesTelemetry: made.telemetry !== null }
      } catch (error) {
        await browsers.delete({ project }, id, false).catch((failed: unknown) => {
          if (!isGone(failed)) throw failed
        })
        throw error
      }
    },
    async find(id) {
      return hasEnded(await findSession(id)) ? undefined : browserOf(id)
    },
    async finish(id, { save }, signal) {
      const row = await findSession(id)
      if (!row) {
        if (save) throw new BrowserGone('the browser has ended, and nothing is known of its profile')
        return
      }
      const project = { project: row.project_id! }
      if (save && !row.profile_save) {
        if (hasEnded(row)) throw new BrowserGone('the browser has ended before its profile could be saved')
        const { endpoint, release } = await browsers.reach(undefined, id, { isForLogins: true }).catch((error: unknown) => {
          throw isGone(error) ? new BrowserGone('the browser has ended before its profile could be saved') : error
        })
        await saveAtEnd({ id, lease: row.lease, endpoint }).finally(release)
      }
      await browsers.delete(project, id, false).catch((error: unknown) => {
        if (!isGone(error)) throw error
      })
      if (!save) return
      const { saved, message } = await until('the profile of a login is saved', SAVED_MS, async () => (await findSession(id))?.profile_end ?? undefined, {
        everyMs: SAVED_LOOK_MS,
        signal,
      })
      if (saved === 'not') throw new Error(`the profile was ${message}`)
    },
    async liveViewUrl(id, at, access) {
      const row = await findSession(id)
      return row === undefined || hasEnded(row) ? undefined : at + livePath(row, access)
    },
  }
}
