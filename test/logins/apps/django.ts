// Django's admin site from PyPI: a classic form with CSRF protection and complete autocomplete tokens.
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { LOGINS_DIR, randomPassword, withFront, type LoginApp } from '../app.ts'
import { runProgram, scratchFolder, startProgram, writeFiles } from '../program.ts'

const HOST = 'admin.django-app.test'

export async function startDjango(): Promise<LoginApp> {
  await using scope = new AsyncDisposableStack()
  const { dir } = scope.use(scratchFolder('django'))
  const user = { username: 'ann', password: randomPassword() }
  const python = join(LOGINS_DIR, 'django/bin/python')
  writeFiles(dir, {
    'site_settings.py': `
SECRET_KEY = '${randomBytes(24).toString('hex')}'
ALLOWED_HOSTS = ['*']
ROOT_URLCONF = 'site_urls'
INSTALLED_APPS = ['django.contrib.admin', 'django.contrib.auth', 'django.contrib.contenttypes', 'django.contrib.sessions', 'django.contrib.messages', 'django.contrib.staticfiles']
MIDDLEWARE = ['django.contrib.sessions.middleware.SessionMiddleware', 'django.middleware.csrf.CsrfViewMiddleware',
              'django.contrib.auth.middleware.AuthenticationMiddleware', 'django.contrib.messages.middleware.MessageMiddleware']
TEMPLATES = [{'BACKEND': 'django.template.backends.django.DjangoTemplates', 'APP_DIRS': True, 'OPTIONS': {'context_processors': [
    'django.template.context_processors.request', 'django.contrib.auth.context_processors.auth', 'django.contrib.messages.context_processors.messages']}}]
DATABASES = {'default': {'ENGINE': 'django.db.backends.sqlite3', 'NAME': '${dir}/db.sqlite3', 'OPTIONS': {'timeout': 20}}}
STATIC_URL = '/static/'
DEBUG = True
USE_TZ = True
`,
    'site_urls.py': `
from django.contrib import admin
from django.urls import path
urlpatterns = [path('admin/', admin.site.urls)]
`,
  })
  const env = { DJANGO_SETTINGS_MODULE: 'site_settings', PYTHONPATH: dir, PYTHONDONTWRITEBYTECODE: '1', DJANGO_SUPERUSER_PASSWORD: user.password }
  await runProgram([python, '-m', 'django', 'migrate', '--verbosity', '0'], { cwd: dir, env })
  await runProgram([python, '-m', 'django', 'createsuperuser', '--noinput', '--username', user.username, '--email', 'ann@example.test'], { cwd: dir, env })
  const server = scope.use(await startProgram({ command: (port) => [python, '-m', 'django', 'runserver', '--noreload', `127.0.0.1:${port}`], cwd: dir, env }))
  return await withFront({ [HOST]: server.port }, scope, {
    name: 'django',
    loginUrl: `http://${HOST}/admin/login/`,
    homeUrl: `http://${HOST}/admin/`,
    user,
    async endSessions() {
      using database = new DatabaseSync(join(dir, 'db.sqlite3'), { timeout: 20_000 })
      database.exec('delete from django_session')
    },
    proof: { url: `http://${HOST}/admin/`, text: /Site administration/ },
  })
}
