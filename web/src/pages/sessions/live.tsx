// The live view in a frame: the same page as for everybody with its link.
import { useQuery } from '@tanstack/react-query'
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
  const { data: watchUrl } = useQuery({
    queryKey: ['watchUrl', url],
    queryFn: ({ signal }) => watchUrlOf(url!, signal),
    enabled: url !== undefined,
    staleTime: Infinity,
  })
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
        {mayAct ? (
          // Keys make two buttons of them; otherwise one would say that the other's link was copied.
          <Copy key="control" text={url}>
            Copy link to control
          </Copy>
        ) : (
          watchUrl !== undefined && (
            <Copy key="watch" text={watchUrl}>
              Copy link to watch
            </Copy>
          )
        )}
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

/** The address of the same view without control. The service redirects to it on a request that only asks to watch. */
async function watchUrlOf(url: string, signal: AbortSignal): Promise<string> {
  const response = await fetch(`${own(url)}?readOnly=true`, { signal, cache: 'no-store' })
  await response.body?.cancel()
  if (!response.ok) throw new Error('There is no live view any more.')
  // A person who may only watch already has that address.
  return response.redirected ? new URL(new URL(response.url).pathname, url).href : url
}
