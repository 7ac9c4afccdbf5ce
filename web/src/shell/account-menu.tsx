// The account menu: who is signed in, the theme, and signing out.
import { useState } from 'react'
import { Button, Menu, MenuItem, MenuSection, MenuTrigger, Popover, Header } from 'react-aria-components'
import { signOut, useMe } from '../api/sign-in.ts'
import { failed } from '../ui/toasts.tsx'
import { chooseTheme, theme, type Theme } from './theme.ts'

const THEMES: [Theme, string][] = [
  ['system', 'As the system'],
  ['light', 'Light'],
  ['dark', 'Dark'],
]

export function AccountMenu() {
  const who = useMe().data?.principal
  const [chosen, choose] = useState(theme)
  const name = who ? (who.name ?? who.email ?? who.id) : 'Account'
  return (
    <div className="account">
      <MenuTrigger>
        <Button className="account-button">
          <span className="avatar" aria-hidden="true">
            {who?.type === 'user' ? name.slice(0, 1).toUpperCase() : '#'}
          </span>
          <span className="name">
            <span className="visually-hidden">Account: </span>
            {name}
            <small>{who?.type === 'user' ? who.email : who && 'API key'}</small>
          </span>
        </Button>
        <Popover className="popover" placement="top start">
          <Menu className="menu" onAction={(action) => void (action === 'sign-out' && signOut().catch(failed('Signing out has failed')))}>
            <MenuSection
              selectionMode="single"
              disallowEmptySelection
              selectedKeys={[chosen]}
              onSelectionChange={(keys) => {
                const next = [...(keys as Set<Theme>)][0]!
                choose(next)
                chooseTheme(next)
              }}
            >
              <Header>Theme</Header>
              {THEMES.map(([id, text]) => (
                <MenuItem key={id} id={id}>
                  {text}
                </MenuItem>
              ))}
            </MenuSection>
            <MenuSection aria-label="Links">
              <MenuItem id="docs" href="/docs">
                Documentation
              </MenuItem>
              <MenuItem id="sign-out">Sign out</MenuItem>
            </MenuSection>
          </Menu>
        </Popover>
      </MenuTrigger>
    </div>
  )
}
