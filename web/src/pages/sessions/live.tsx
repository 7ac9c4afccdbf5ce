// The live view: the page that everybody with its link sees, in a frame.
import { useState } from 'react'
import { useMay } from '../../api/sign-in.ts'
import { Button } from '../../ui/button.tsx'
import { Copy } from '../../ui/code.tsx'
import { DEFAULT_SCREEN, own } from './model.ts'
import type { TabProps } from './session.tsx'

export default function Live({ session }: TabProps) {
  const [mayAct, act] = useState(false)
  const mayControl = useMay('updateBrowser')
  const url = session.browser_live_view_url
  if (url === undefined)
    return (
      <div className="empty">
        <h2>No live view</h2>
        <p>This session has none.</p>
      </div>
    )
  const address = own(url)
  const { width, height } = session.viewport ?? DEFAULT_SCREEN
  return (
    <div className="live">
      <div className="toolbar">
        {mayControl && (
          <Button onPress={() => act(!mayAct)} aria-pressed={mayAct}>
            {mayAct ? 'Only watch' : 'Take control'}
          </Button>
        )}
        <span className="muted">{mayAct ? 'Your mouse and keyboard act in the browser.' : 'You are watching. Nothing that you do reaches the browser.'}</span>
        <span className="space" />
        <a className="button plain" href={mayAct ? address : `${address}?readOnly=true`} target="_blank" rel="noopener">
          Open in a tab
        </a>
        <Copy text={url}>Copy link</Copy>
      </div>
      <iframe
        key={String(mayAct)}
        title="Live view of the browser"
        className="screen"
        style={{ aspectRatio: `${width} / ${height + 44}` }}
        src={mayAct ? address : `${address}?readOnly=true`}
        allow="clipboard-read; clipboard-write; fullscreen"
      />
    </div>
  )
}
