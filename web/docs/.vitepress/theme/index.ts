// The usual theme of VitePress, in the fonts of the reader's machine, with a page of our own for addresses that are none.
import Theme from 'vitepress/theme-without-fonts'
import { h } from 'vue'
import './style.css'

const missing = () =>
  h('main', { class: 'missing' }, [
    h('h1', 'There is no such page'),
    h('p', ['Search for it, or see ', h('a', { href: '/docs' }, 'the list of all pages'), '.']),
  ])

export default { extends: Theme, Layout: () => h(Theme.Layout, null, { 'not-found': missing }) }
