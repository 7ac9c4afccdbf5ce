// The head of a page, and the title of its document.
import { useEffect, type ReactNode } from 'react'

/** The title of the document: the name of the thing that a page is about, or else of the page. */
const titles: { page?: string | undefined; thing?: string | undefined } = {}

/** Sets one of the two. They come in any order: a page knows its thing before the frame knows the page, or long after. */
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
