// Flask-AppBuilder from PyPI, in Korean: the login form of applications built with it, with two hidden dialogs in every page.
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { LOGINS_DIR, randomPassword, withFront, type LoginApp } from '../app.ts'
import { runProgram, scratchFolder, startProgram, writeFiles } from '../program.ts'

const HOST = 'admin.builder-app.test'

export async function startFlaskAppBuilder(): Promise<LoginApp> {
  await using scope = new AsyncDisposableStack()
  const { dir } = scope.use(scratchFolder('flask-appbuilder'))
  const user = { username: 'ann', password: randomPassword() }
  const flask = join(LOGINS_DIR, 'flask-appbuilder/bin/flask')
  // The application signs its session cookies with this key.
  const configure = () => writeFiles(dir, { key: randomBytes(24).toString('hex') })
  configure()
  writeFiles(dir, {
    'site_app.py': `
from flask import Flask
from flask_appbuilder import AppBuilder
from flask_appbuilder.utils.legacy import get_sqla_class

db = get_sqla_class()()
appbuilder = AppBuilder()

def create_app():
    app = Flask(__name__)
    app.config.update(SECRET_KEY=open('${dir}/key').read(), SQLALCHEMY_DATABASE_URI='sqlite:///${dir}/site.db', AUTH_TYPE=1, APP_NAME='Site',
        AUTH_RATE_LIMITED=False, BABEL_DEFAULT_LOCALE='ko', LANGUAGES={'ko': {'flag': 'kr', 'name': 'Korean'}})
    with app.app_context():
        db.init_app(app)
        appbuilder.init_app(app, db.session)
        db.create_all()
    return app
`,
  })
  const env = { FLASK_APP: 'site_app:create_app', PYTHONDONTWRITEBYTECODE: '1' }
  const ann = ['--username', user.username, '--firstname', 'Ann', '--lastname', 'Example', '--email', 'ann@example.test', '--password', user.password]
  await runProgram([flask, 'fab', 'create-admin', ...ann], { cwd: dir, env })
  const server = scope.use(await startProgram({ command: (port) => [flask, 'run', '--host', '127.0.0.1', '--port', `${port}`], cwd: dir, env }))
  return await withFront({ [HOST]: server.port }, scope, {
    name: 'flask-appbuilder',
    loginUrl: undefined,
    homeUrl: `http://${HOST}/`,
    user,
    endSessions: () => server.restart(configure),
    proof: { url: `http://${HOST}/users/userinfo/`, text: /ann@example\.test/ },
  })
}
