// The browsers of logins and health checks: sessions of the connection's project, whose tools are closed to callers.
import type { z } from 'zod'
import { login } from '../../../agent/login/contract.ts'
import { until } from '../../../base/wait.ts'
import { call, type Input } from '../../../http/client.ts'
import { Fault } from '../../../http/fault.ts'
import type { Endpoint } from '../../../http/endpoint.ts'
import type { LeasedSession, Route } from '../../../http/route.ts'
import type { Browsers } from '../../sessions/browsers/browsers.ts'
import { CreateBrowser } from '../../sessions/browsers/contract.ts'
import type { BrowserRow } from '../../sessions/browsers/rows.ts'
import { StartReplay } from '../../sessions/replays/contract.ts'
import type { Replays } from '../../sessions/replays/replays.ts'
import { BrowserGone, type LoginBrowser, type LoginBrowsers } from './engine/browser.ts'

/** A flow lasts at most 20 minutes. The browser of one that nobody ends is gone soon afterwards. */
const TIMEOUT_SECONDS = 25 * 60
/** Saving a profile may take five minutes, and is tried for ten. */
const SAVED_MS = 11 * 60_000
const SAVED_LOOK_MS = 100
/**
 * No window of Chromium itself waits for an answer in a login: its page would wait too, and nobody is there. Passwords by HTTP: also those that a request of a page's
 * script is asked for. Permissions are refused; a script that prints goes on.
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
  // Chromium keeps nothing of what is typed: it would suggest that beside a field later, for everybody to read, and save it with the profile.
  AutofillAddressEnabled: false,
  AutofillCreditCardEnabled: false,
  PasswordManagerEnabled: false,
  // Nor the addresses that it was at: a form that is sent by GET has the password in one. The profile would have it in its history.
  SavingBrowserHistoryDisabled: true,
  // A person at the live view has a keyboard. By a script in the address bar, the developer tools or an extension they would read a stored password in its field.
  // Not by DeveloperToolsAvailability: the agent's own pipe to Chromium would be closed, too. Scripts of pages, also in their links, run as before.
  URLBlocklist: ['javascript:*', 'view-source:*', 'devtools://*', 'chrome://*', 'chrome-untrusted://*', 'file://*'],
  ExtensionInstallBlocklist: ['*'],
}
/** A login is made at a window of a usual size. */
const VIEWPORT = { width: 1280, height: 800 }

export interface LoginBrowsersSettings {
  browsers: Pick<Browsers, 'create' | 'delete' | 'reach'>
  /** A session of any project, also one that has ended. */
  findSession: (id: string) => Promise<BrowserRow | undefined>
  /** Has its profile saved when it ends. @throws when it has ended */
  saveAtEnd: (session: LeasedSession & { endpoint: Endpoint }) => Promise<unknown>
  startReplay: Replays['start']
  /** The path of its live view. */
  livePath: (row: Pick<BrowserRow, 'id' | 'lease'>, access: 'act' | 'watch') => string
  /** For the addresses of a recording, which nobody is given here. */
  origin: () => string
}

type LoginRoute = (typeof login)[keyof typeof login]
type ReplyOf<R extends Route> = R['reply'] extends { schema: infer S extends z.ZodType } ? z.output<S> : void

const hasEnded = (row: BrowserRow | undefined): boolean => row === undefined || row.deleted_at !== null || row.state !== 'running'
const isGone = (error: unknown): boolean => error instanceof Fault && error.code === 'not_found'

export function loginBrowsers({ browsers, findSession, saveAtEnd, startReplay, livePath, origin }: LoginBrowsersSettings): LoginBrowsers {
  /** Calls its agent. It counts as in use meanwhile, and wakes when it sleeps. */
  async function ask<R extends LoginRoute>(id: string, route: R, input: Input<R>, signal: AbortSignal): Promise<ReplyOf<R>> {
    const { endpoint, release } = await browsers.reach(undefined, id, { isForLogins: true }).catch((error: unknown) => {
      throw isGone(error) ? new BrowserGone('the browser has ended') : error
    })
    try {
      const both = AbortSignal.any([signal, AbortSignal.timeout(route.deadlineMs)])
      return (await call(endpoint, route as LoginRoute, input as never, { signal: both })) as ReplyOf<R>
    } catch (error) {
      // The call may have failed because it ended.
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
      // Policies for extensions are not accepted from callers.
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
