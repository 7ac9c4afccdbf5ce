// The header of a page, and the title of its document.
import { useEffect, type ReactNode } from 'react'

/** The title of the document is the name of the thing that a page is about, or otherwise the page's title. */
const titles: { page?: string | undefined; thing?: string | undefined } = {}

/** Sets one of the two, in any order: a page may know its thing before or after the frame knows the page. */
export function putTitle(part: typeof titles): void {
  const { thing, page } = Object.assign(titles, part)
  const title = thing ?? page
  document.title = title === undefined ? 'Cob' : `${title} · Cob`
}

/** For pages about one thing: `title` is its name. */
export function usePageTitle(title: string | undefined): void {
  useEffect(() => {
    putTitle({ thing: title })
    return () => putTitle({ thing: undefined })
  }, [title])
}

interface HeadProps {
  title: ReactNode
  /** A link back to the list. */
  back?: ReactNode
  /** One line that says what these things are. */
  text?: ReactNode
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
