// Login pages in the most common languages are recognised by their words.
import { describe, expect, test } from 'vitest'
import { box, button, context, input, link, page, password, press } from '../../../../../test/support/page-models.ts'
import { ACTION_WORDS } from './action-words.ts'
import { FIELD_WORDS } from './field-words.ts'
import { interpret } from './interpret.ts'
import { MESSAGE_WORDS } from './message-words.ts'
import { wordsOf } from './words.ts'

/** The columns of the table below. */
const COLUMNS = 'heading user email password remember submit next forgot register wrong code app confirm google signOut reject accept search'
type Texts = Record<'heading' | 'user' | 'email' | 'password' | 'remember' | 'submit' | 'next' | 'forgot' | 'register' | 'wrong', string> &
  Record<'code' | 'app' | 'confirm' | 'google' | 'signOut' | 'reject' | 'accept' | 'search', string>
const texts = (line: string): Texts => {
  const cells = line.split(' | ')
  return Object.fromEntries(COLUMNS.split(' ').map((name, at) => [name, cells[at]])) as Texts
}

const LANGUAGES: Record<string, string> = {
  en: `Sign in | Username | Email address | Password | Remember me | Log in | Next | Forgot your password? | Create an account | Incorrect username or password. | Verification code | Enter the code from your authenticator app | Confirm password | Continue with Google | Sign out | Reject all | Accept all | Search`,
  de: `Anmeldung | Benutzername | E-Mail-Adresse | Kennwort | Angemeldet bleiben | Einloggen | Weiter | Passwort vergessen? | Konto erstellen | Benutzername oder Passwort ist falsch. | Bestätigungscode | Geben Sie den Code aus Ihrer Authenticator-App ein | Passwort wiederholen | Mit Google anmelden | Abmelden | Alle ablehnen | Alle akzeptieren | Suche`,
  fr: `Connexion | Identifiant | Adresse e-mail | Mot de passe | Se souvenir de moi | Se connecter | Suivant | Mot de passe oublié ? | Créer un compte | Identifiant ou mot de passe incorrect. | Code de vérification | Saisissez le code de votre application d’authentification | Confirmer le mot de passe | Continuer avec Google | Se déconnecter | Tout refuser | Tout accepter | Rechercher`,
  es: `Iniciar sesión | Nombre de usuario | Correo electrónico | Contraseña | Recordarme | Acceder | Siguiente | ¿Olvidaste tu contraseña? | Crear cuenta | Usuario o contraseña incorrectos. | Código de verificación | Introduce el código de tu aplicación de autenticación | Repetir contraseña | Continuar con Google | Cerrar sesión | Rechazar todo | Aceptar todo | Buscar`,
  it: `Accesso | Nome utente | Indirizzo email | Password | Ricordami | Accedi | Avanti | Password dimenticata? | Crea un account | Nome utente o password errati. | Codice di verifica | Inserisci il codice della tua app di autenticazione | Conferma password | Accedi con Google | Esci | Rifiuta tutti | Accetta tutti | Cerca`,
  pt: `Iniciar sessão | Nome de usuário | Endereço de e-mail | Senha | Lembrar-me | Entrar | Avançar | Esqueceu a senha? | Criar conta | Usuário ou senha inválidos. | Código de verificação | Insira o código do seu aplicativo autenticador | Confirmar senha | Continuar com Google | Sair | Rejeitar tudo | Aceitar tudo | Pesquisar`,
  nl: `Inloggen | Gebruikersnaam | E-mailadres | Wachtwoord | Onthoud mij | Aanmelden | Volgende | Wachtwoord vergeten? | Account aanmaken | Onjuiste gebruikersnaam of wachtwoord. | Verificatiecode | Voer de code uit je authenticator-app in | Bevestig wachtwoord | Doorgaan met Google | Uitloggen | Alles weigeren | Alles accepteren | Zoeken`,
  pl: `Logowanie | Nazwa użytkownika | Adres e-mail | Hasło | Zapamiętaj mnie | Zaloguj się | Dalej | Nie pamiętasz hasła? | Utwórz konto | Nieprawidłowa nazwa użytkownika lub hasło. | Kod weryfikacyjny | Wpisz kod z aplikacji uwierzytelniającej | Powtórz hasło | Zaloguj się przez Google | Wyloguj się | Odrzuć wszystkie | Zaakceptuj wszystkie | Szukaj`,
  cs: `Přihlášení | Uživatelské jméno | E-mail | Heslo | Zapamatovat si mě | Přihlásit se | Další | Zapomněli jste heslo? | Vytvořit účet | Nesprávné uživatelské jméno nebo heslo. | Ověřovací kód | Zadejte kód z ověřovací aplikace | Heslo znovu | Přihlásit se přes Google | Odhlásit se | Odmítnout vše | Přijmout vše | Hledat`,
  sv: `Logga in | Användarnamn | E-postadress | Lösenord | Kom ihåg mig | Logga in | Nästa | Glömt lösenordet? | Skapa konto | Felaktigt användarnamn eller lösenord. | Verifieringskod | Ange koden från din autentiseringsapp | Upprepa lösenord | Logga in med Google | Logga ut | Avvisa alla | Acceptera alla | Sök`,
  da: `Log ind | Brugernavn | E-mailadresse | Adgangskode | Husk mig | Log ind | Næste | Glemt adgangskode? | Opret konto | Forkert brugernavn eller adgangskode. | Bekræftelseskode | Indtast koden fra din godkendelsesapp | Gentag adgangskode | Log ind med Google | Log ud | Afvis alle | Accepter alle | Søg`,
  fi: `Kirjaudu sisään | Käyttäjätunnus | Sähköpostiosoite | Salasana | Muista minut | Kirjaudu | Seuraava | Unohditko salasanan? | Luo tili | Virheellinen käyttäjätunnus tai salasana. | Vahvistuskoodi | Syötä koodi todennussovelluksesta | Salasana uudelleen | Jatka Google-tilillä | Kirjaudu ulos | Hylkää kaikki | Hyväksy kaikki | Haku`,
  tr: `Giriş Yap | Kullanıcı adı | E-posta adresi | Şifre | Beni hatırla | Giriş | İleri | Şifremi unuttum | Hesap oluştur | Kullanıcı adı veya şifre hatalı. | Doğrulama kodu | Doğrulama uygulamanızdaki kodu girin: doğrulama uygulaması | Şifre tekrar | Google ile giriş yap | Çıkış Yap | Tümünü reddet | Tümünü kabul et | Ara`,
  ru: `Вход | Имя пользователя | Электронная почта | Пароль | Запомнить меня | Войти | Далее | Забыли пароль? | Зарегистрироваться | Неверное имя пользователя или пароль. | Код подтверждения | Введите код из приложения-аутентификатора | Повторите пароль | Войти через Google | Выйти | Отклонить все | Принять все | Поиск`,
  uk: `Вхід | Ім’я користувача | Електронна пошта | Пароль | Запам’ятати мене | Увійти | Далі | Забули пароль? | Зареєструватися | Хибне ім’я користувача або пароль. | Код підтвердження | Введіть код із застосунку автентифікації | Повторіть пароль | Увійти через Google | Вийти | Відхилити все | Прийняти все | Пошук`,
  ja: `ログイン | ユーザー名 | メールアドレス | パスワード | ログイン状態を保持する | ログイン | 次へ | パスワードをお忘れの方 | 新規登録 | ユーザー名またはパスワードが正しくありません。 | 認証コード | 認証アプリに表示されているコードを入力してください | パスワード（確認用） | Googleでログイン | ログアウト | すべて拒否 | すべて受け入れる | 検索`,
  zh: `登录 | 用户名 | 电子邮件 | 密码 | 记住我 | 登录 | 下一步 | 忘记密码？ | 注册 | 用户名或密码错误。 | 验证码 | 输入身份验证器应用中的验证码 | 确认密码 | 使用 Google 登录 | 退出登录 | 全部拒绝 | 全部接受 | 搜索`,
  'zh-TW': `登入 | 使用者名稱 | 電子郵件 | 密碼 | 記住我 | 登入 | 下一步 | 忘記密碼？ | 註冊 | 使用者名稱或密碼不正確。 | 驗證碼 | 請輸入驗證器應用程式中的驗證碼 | 確認密碼 | 使用 Google 登入 | 登出 | 全部拒絕 | 全部接受 | 搜尋`,
  ko: `로그인 | 아이디 | 이메일 | 비밀번호 | 로그인 상태 유지 | 로그인 | 다음 | 비밀번호를 잊으셨나요? | 회원가입 | 아이디 또는 비밀번호가 올바르지 않습니다. | 인증 코드 | 인증 앱에 표시된 코드를 입력하세요 | 비밀번호 확인 | Google로 로그인 | 로그아웃 | 모두 거부 | 모두 허용 | 검색`,
  ar: `تسجيل الدخول | اسم المستخدم | البريد الإلكتروني | كلمة المرور | تذكرني | دخول | التالي | هل نسيت كلمة المرور؟ | إنشاء حساب | اسم المستخدم أو كلمة المرور غير صحيحة. | رمز التحقق | أدخل رمز التحقق من تطبيق المصادقة | تأكيد كلمة المرور | المتابعة باستخدام Google | تسجيل الخروج | رفض الكل | قبول الكل | بحث`,
}

describe.each(Object.entries(LANGUAGES))('in %s', (language, line) => {
  const say = texts(line)
  // Names and addresses carry no meaning here, so only the words can.
  const plain = { language, url: 'https://example.test/a', title: 'Example' }
  const forms = [{ frame: 0, action_host: 'example.test', action_path: '/b', method: 'post' }]

  test('a login form, with what is beside it', () => {
    const model = page(
      [
        input(say.search, { form: 1 }),
        link(say.register, '/r'),
        input(say.user),
        password(say.password),
        link(say.forgot, '/f'),
        box(say.remember),
        button(say.submit),
        press(say.google),
      ],
      { ...plain, headings: [say.heading], forms: [...forms, { frame: 0, action_host: 'example.test', action_path: '/c', method: 'get' }] },
    )
    const found = interpret(model, context())
    expect(found.kind).toBe('login')
    expect(found.fields.map(({ role, key, ref }) => [role, key, ref])).toEqual([
      ['identifier', 'username', '1.0.2'],
      ['password', 'password', '1.0.3'],
    ])
    expect(found.submit).toBe('1.0.6')
    expect(found.tick).toEqual(['1.0.5'])
    expect(found.choices.map(({ type, provider }) => [type, provider])).toEqual([['sso_provider', 'google']])
    expect(found.websiteError).toBeUndefined()
  })

  test('an address first, then the password', () => {
    const first = interpret(page([input(say.email), button(say.next), link(say.register, '/r')], { ...plain, headings: [say.heading] }), context())
    expect(first.kind).toBe('identifier')
    expect(first.fields.map(({ key }) => key)).toEqual(['email'])
    expect(first.submit).toBe('1.0.1')
    expect(interpret(page([password(say.password), link(say.forgot, '/f'), button(say.next)], plain), context()).kind).toBe('password')
  })

  test('a message that the password is wrong', () => {
    const found = interpret(
      page([input(say.user), password(say.password), button(say.submit)], { ...plain, alerts: [{ text: say.remember }, { text: say.wrong }] }),
      context({ hasSubmitted: true }),
    )
    expect(found.websiteError).toBe(say.wrong)
  })

  test('a code from an app', () => {
    const model = page([input(say.code, { inputmode: 'numeric', maxlength: 6 }), button(say.next)], { ...plain, headings: [say.code], body: say.app })
    const found = interpret(model, context())
    expect(found.kind).toBe('code')
    expect(found.fields.map(({ role, codeBy }) => [role, codeBy])).toEqual([['totp_code', 'totp']])
    expect(found.submit).toBe('1.0.1')
  })

  test('a registration, which gets no password', () => {
    const found = interpret(page([input(say.email), password(say.password), password(say.confirm), button(say.register)], plain), context())
    expect(found.kind).toBe('sign_up')
    expect(found.fields.map(({ role }) => role)).toEqual(['text', 'password_new', 'password_new'])
  })

  test('a way to the form, under a banner that is refused', () => {
    const model = page(
      [
        link(say.heading, '/a1', { covered: true }),
        link(say.register, '/a2', { covered: true }),
        input(say.search, { form: null, covered: true }),
        press(say.accept, { in_dialog: true }),
        press(say.reject, { in_dialog: true }),
      ],
      { ...plain, body: 'Cookies' },
    )
    const found = interpret(model, context())
    expect(found.kind).toBe('way_to_login')
    expect(found.loginLinks).toEqual(['1.0.0'])
    expect(found.dismiss).toBe('1.0.4')
  })

  test('a user who is logged in', () => {
    const found = interpret(
      page([link('Jane', '/p'), link(say.signOut, '/x'), input(say.search, { form: null })], { ...plain, headings: ['Projects'] }),
      context(),
    )
    expect(found.kind).toBe('logged_in')
    expect(found.signOut).toBe('1.0.1')
  })
})

test('each phrase of the lists is found where a page says it, also in longer forms of its words', () => {
  const lists = Object.entries({ ...FIELD_WORDS, ...ACTION_WORDS, ...MESSAGE_WORDS }) as [keyof typeof FIELD_WORDS, string][]
  const missed = lists.flatMap(([word, list]) =>
    list
      .split(/[|\n]/)
      .map((phrase) => phrase.trim())
      .filter((phrase) => phrase !== '' && !wordsOf(`: ${phrase.replaceAll('*', 'en')}!`).has(word))
      .map((phrase) => `${word}: ${phrase}`),
  )
  expect(missed).toEqual([])
})
