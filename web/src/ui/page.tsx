// The head of a page, and the title of its document.
import { useEffect, type ReactNode } from 'react'

/** For pages about one thing: `title` is its name. */
export function usePageTitle(title: string | undefined): void {
  useEffect(() => {
    if (title !== undefined) document.title = `${title} · Cob`
  }, [title])
}

interface HeadProps {
  title: ReactNode
  /** Where one comes from: a link to the list. */
  back?: ReactNode
  /** One line: what these are. */
  text?: ReactNode
  /** Buttons. */
  children?: ReactNode
}

export const Head = ({ title, back, text, children }: HeadProps) => (
  <div className="head">
    <div>
      {back && <p className="back">{back}</p>}
      <h1>{title}</h1>
      {text && <p className="muted">{text}</p>}
    </div>
    {children && <div className="buttons">{children}</div>}
  </div>
)
