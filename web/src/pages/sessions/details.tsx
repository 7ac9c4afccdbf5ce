// The options of a session, its addresses for programs, and its name and tags, which can be changed.
import { useState } from 'react'
import { Link } from 'react-router'
import { isRunning, kindOf, type Session } from './model.ts'
import type { TabProps } from './session.tsx'
import { useChange } from '../../api/queries.ts'
import { useMay } from '../../api/sign-in.ts'
import { adviceOn } from '../../ui/advice.ts'
import { Button } from '../../ui/button.tsx'
import { CodeTabs, Copy, examples } from '../../ui/code.tsx'
import { Field } from '../../ui/field.tsx'
import { Ago, duration, Facts, Mono, Outside, State } from '../../ui/show.tsx'
import { printable } from '../../ui/text.ts'
import { done } from '../../ui/toasts.tsx'

export default function Details({ session }: TabProps) {
  const { viewport, profile, pool, proxy } = session
  const mayChange = useMay('updateBrowser') && isRunning(session)
  return (
    <>
      <section className="panel">
        <Facts
          facts={[
            ['Id', <Mono key="id">{session.session_id}</Mono>],
            ['Screen', viewport && `${viewport.width} × ${viewport.height}`],
            ['Kind', kindOf(session)],
            ['Ends after', `${duration(session.timeout_seconds * 1000)} without use`],
            ['Start page', session.start_url && <Outside url={session.start_url} />],
            [
              'Profile',
              profile && (
                <Link key="profile" to={`/profiles/${profile.id}`}>
                  {profile.name ?? profile.id}
                </Link>
              ),
            ],
            ['Saved into the profile', profile && <Saved key="saved" session={session} />],
            ['Proxy', proxy && proxy.id],
            ['Pool', pool && (pool.name ?? pool.id)],
            ['Created', <Ago key="created" at={session.created_at} />],
            ['Up for', duration(session.usage.uptime_ms)],
          ]}
        />
      </section>
      {mayChange && <Change session={session} />}
      {mayChange && (
        <section className="panel">
          <h2>Use it from a program</h2>
          <p className="muted">
            Playwright and Puppeteer connect to its CDP address. The address has a token of this session: who has it can control the browser.{' '}
            <Copy text={session.cdp_ws_url}>Copy the address</Copy>
          </p>
          <CodeTabs examples={useIt(session)} />
        </section>
      )}
    </>
  )
}

const SAVED = { whole: ['good', 'All of it'], in_part: ['busy', 'In part'], not: ['bad', 'Not saved'] } as const

/** Whether the session's profile is saved when it ends, and the result. */
function Saved({ session }: TabProps) {
  const { profile, profile_save_changes: saves } = session
  if (!profile?.save) return saves ? isRunning(session) ? 'when it ends' : <State kind="busy">Being saved</State> : 'no'
  const [kind, text] = SAVED[profile.save.saved]
  return (
    <>
      <State kind={kind}>{text}</State> {profile.save.saved !== 'whole' && printable(profile.save.message)}
    </>
  )
}

const useIt = ({ session_id: id }: Session) =>
  examples(
    `const session = await kernel.browsers.retrieve('${id}')\nconst picture = await kernel.browsers.computer.captureScreenshot(session.session_id)\nawait (await import('node:fs/promises')).writeFile('screen.png', Buffer.from(await picture.arrayBuffer()))`,
    `session = kernel.browsers.retrieve("${id}")\nkernel.browsers.computer.capture_screenshot(session.session_id).write_to_file("screen.png")`,
    `-X POST $URL/browsers/${id}/computer/screenshot --output screen.png`,
  )

/** Parses lines of `a=1` into tags. Undefined when a line has no `=`. */
function tagsIn(text: string): Record<string, string> | undefined {
  const lines = text
    .split('\n')
    .map((line) => line.trim())
    .filter(Boolean)
  if (lines.some((line) => !/^[^=]+=/.test(line))) return undefined
  return Object.fromEntries(lines.map((line) => [line.slice(0, line.indexOf('=')).trim(), line.slice(line.indexOf('=') + 1).trim()]))
}

function Change({ session }: TabProps) {
  const [name, setName] = useState(session.name ?? '')
  const [text, setText] = useState(() =>
    Object.entries(session.tags ?? {})
      .map((pair) => pair.join('='))
      .join('\n'),
  )
  const change = useChange('updateBrowser', ['getBrowser', 'listBrowsers'])
  const tags = tagsIn(text)
  return (
    <section className="panel">
      <h2>Name and tags</h2>
      <form
        className="dialog-form"
        noValidate
        onSubmit={(event) => {
          event.preventDefault()
          if (tags) change.mutate({ params: { id_or_name: session.session_id }, body: { name, tags } }, { onSuccess: () => done('Saved') })
        }}
      >
        <Field label="Name" value={name} onChange={setName} maxLength={255} />
        <Field
          label="Tags"
          rows={3}
          value={text}
          onChange={setText}
          hint="One a line, as key=value."
          {...(!tags && { problem: 'Each line must be key=value.' })}
        />
        {change.error && (
          <p className="problem" role="alert">
            {adviceOn(change.error)}
          </p>
        )}
        <div className="buttons">
          <Button type="submit" isDisabled={change.isPending}>
            {change.isPending ? 'Saving…' : 'Save'}
          </Button>
        </div>
      </form>
    </section>
  )
}
