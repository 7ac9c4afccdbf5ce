// The frame around all pages: navigation, project, account. When nobody is signed in, it shows the sign-in page.
import { useEffect, useState } from 'react'
import { NavLink, Outlet, useLocation, useMatches, useNavigation } from 'react-router'
import { useSignedIn } from '../api/account.ts'
import { ApiError } from '../api/client.ts'
import { useMe } from '../api/sign-in.ts'
import { PAGES, SECTIONS } from '../pages.ts'
import { Button } from '../ui/button.tsx'
import { ErrorNotice } from '../ui/error.tsx'
import { putTitle } from '../ui/page.tsx'
import { AccountMenu } from './account-menu.tsx'
import { ProjectSwitcher } from './project-switcher.tsx'
import { SignIn } from './sign-in.tsx'

export function Frame() {
  const isSignedIn = useSignedIn()
  const me = useMe()
  const [isOpen, open] = useState(false)
  const { pathname } = useLocation()
  const isLoading = useNavigation().state === 'loading'
  const matches = useMatches()
  const title = (matches.at(-1)?.handle as { title?: string } | undefined)?.title

  // On a phone the navigation covers the page, so it closes after a choice.
  useEffect(() => open(false), [pathname])
  useEffect(() => putTitle({ page: isSignedIn ? title : undefined }), [title, isSignedIn])
  useEffect(() => {
    if (!isOpen) return
    const close = (event: KeyboardEvent): void => void (event.key === 'Escape' && open(false))
    addEventListener('keydown', close)
    return () => removeEventListener('keydown', close)
  }, [isOpen])

  if (!isSignedIn) return <SignIn />
  // When nobody is signed in, the answer is a refusal, and the sign-in page appears.
  if (me.isPending || (me.error instanceof ApiError && me.error.status === 401)) return null
  if (!me.data)
    return (
      <main className="alone">
        <ErrorNotice error={me.error} what="Your sign-in" retry={() => void me.refetch()} />
      </main>
    )
  return (
    <div className="frame" data-navigation={isOpen ? 'open' : 'closed'}>
      <a className="skip" href="#content">
        Skip to the content
      </a>
      <header className="bar">
        <Button look="quiet" aria-label="Navigation" aria-expanded={isOpen} onPress={() => open(!isOpen)}>
          <span className="burger" aria-hidden="true" />
        </Button>
        <span className="brand">Cob</span>
      </header>
      <aside className="side" aria-label="Cob">
        <div className="brand" aria-hidden="true">
          <img src="/dashboard/icon.svg" alt="" width="22" height="22" />
          Cob
        </div>
        <ProjectSwitcher />
        <nav aria-label="Pages">
          {SECTIONS.map((section) => {
            const pages = PAGES.filter((page) => page.section === section)
            return (
              pages.length > 0 && (
                <section key={section}>
                  <h2>{section}</h2>
                  <ul>
                    {pages.map(({ path, title }) => (
                      <li key={path}>
                        <NavLink to={`/${path}`}>{title}</NavLink>
                      </li>
                    ))}
                  </ul>
                </section>
              )
            )
          })}
        </nav>
        <AccountMenu />
      </aside>
      <main id="content" tabIndex={-1} aria-busy={isLoading}>
        {isLoading && <div className="progress" role="progressbar" aria-label="Loading the page" />}
        <Outlet />
      </main>
    </div>
  )
}
