// The list of login applications. The quick ones install and start fast enough for script/test.
import { startAdminer } from './apps/adminer.ts'
import { startArtemis } from './apps/artemis.ts'
import { startCalibreWeb } from './apps/calibre-web.ts'
import { startCockpit } from './apps/cockpit.ts'
import { startDeluge } from './apps/deluge.ts'
import { startDjango } from './apps/django.ts'
import { startDokuwiki } from './apps/dokuwiki.ts'
import { startFlaskAppBuilder } from './apps/flask-appbuilder.ts'
import { startJupyter } from './apps/jupyter.ts'
import { startLemonLdap } from './apps/lemonldap.ts'
import { startMediaWiki } from './apps/mediawiki.ts'
import { startMiniflux } from './apps/miniflux.ts'
import { startNodeRed } from './apps/node-red.ts'
import { startOidcProvider, startOidcSso } from './apps/oidc-provider.ts'
import { startParseDashboard } from './apps/parse-dashboard.ts'
import { startPhpMyAdmin } from './apps/phpmyadmin.ts'
import { startQbittorrent } from './apps/qbittorrent.ts'
import { startRabbitMq } from './apps/rabbitmq.ts'
import { startRoundcube } from './apps/roundcube.ts'
import { startSimpleSamlPhp } from './apps/simplesamlphp.ts'
import { startUngit } from './apps/ungit.ts'
import { startVerdaccio } from './apps/verdaccio.ts'
import { startWordpress } from './apps/wordpress.ts'
import { startZnc } from './apps/znc.ts'
import type { LoginApp } from './app.ts'

export interface Listed {
  name: string
  /** The name that script/setup-logins uses for it. */
  install:
    | 'oidc-provider'
    | 'parse-dashboard'
    | 'node-red'
    | 'verdaccio'
    | 'ungit'
    | 'django'
    | 'jupyter'
    | 'calibre-web'
    | 'flask-appbuilder'
    | 'miniflux'
    | 'artemis'
    | 'debian'
  /** Whether it installs in less than 30 seconds and needs no Go, Maven or Java. */
  quick: boolean
  start: () => Promise<LoginApp>
}

export const LOGIN_APPS: Listed[] = [
  { name: 'oidc-provider', install: 'oidc-provider', quick: true, start: startOidcProvider },
  { name: 'oidc-sso', install: 'oidc-provider', quick: true, start: startOidcSso },
  { name: 'django', install: 'django', quick: true, start: startDjango },
  { name: 'jupyter', install: 'jupyter', quick: false, start: startJupyter },
  { name: 'node-red', install: 'node-red', quick: true, start: startNodeRed },
  { name: 'verdaccio', install: 'verdaccio', quick: true, start: startVerdaccio },
  { name: 'parse-dashboard', install: 'parse-dashboard', quick: false, start: startParseDashboard },
  { name: 'dokuwiki', install: 'debian', quick: false, start: startDokuwiki },
  { name: 'adminer', install: 'debian', quick: false, start: startAdminer },
  { name: 'roundcube', install: 'debian', quick: false, start: startRoundcube },
  { name: 'wordpress', install: 'debian', quick: false, start: startWordpress },
  { name: 'simplesamlphp', install: 'debian', quick: false, start: startSimpleSamlPhp },
  { name: 'lemonldap', install: 'debian', quick: false, start: startLemonLdap },
  { name: 'calibre-web', install: 'calibre-web', quick: false, start: startCalibreWeb },
  { name: 'cockpit', install: 'debian', quick: false, start: startCockpit },
  { name: 'rabbitmq', install: 'debian', quick: false, start: startRabbitMq },
  { name: 'deluge', install: 'debian', quick: false, start: startDeluge },
  { name: 'flask-appbuilder', install: 'flask-appbuilder', quick: false, start: startFlaskAppBuilder },
  { name: 'mediawiki', install: 'debian', quick: false, start: startMediaWiki },
  { name: 'phpmyadmin', install: 'debian', quick: false, start: startPhpMyAdmin },
  { name: 'qbittorrent', install: 'debian', quick: false, start: startQbittorrent },
  { name: 'miniflux', install: 'miniflux', quick: false, start: startMiniflux },
  { name: 'artemis', install: 'artemis', quick: false, start: startArtemis },
  { name: 'ungit', install: 'ungit', quick: false, start: startUngit },
  { name: 'znc', install: 'debian', quick: false, start: startZnc },
]

/** Whether this run is script/test, which has little time. */
export const IS_QUICK = process.env.COB_TEST_LOGINS === 'quick'

/** The applications that this run tests. */
export const TESTED: Listed[] = LOGIN_APPS.filter(({ quick }) => quick || !IS_QUICK)
