// Words that name fields on pages, in the most common languages. One phrase between bars; `*` matches any ending of a word.

export const FIELD_WORDS = {
  user: `
    username | user name | user | userid | user id | uid | usr | uname | login | login name | loginname | login id | loginid | account | account name | account id | account number | member id | nickname
    screen name | handle | netid | net id | sign in name | principal | identifier | identity | customer number | client id number | student id | employee id | badge number
    benutzer* | nutzername | kennung | anmeldename | loginname | kundennummer | zugangsnummer | mitgliedsnummer | konto | kontonummer
    identifiant | nom d utilisateur | utilisateur | pseudo | compte | numero client | numero de client
    usuario | nombre de usuario | cuenta | identificador | dni | numero de cliente
    utente | nome utente | codice utente | codice cliente | nome de usuario | utilizador | nome de utilizador | conta | cpf
    gebruiker | gebruikersnaam | klantnummer | inlognaam
    uzytkownik* | nazwa uzytkownika | identyfikator | konto uzytkownika
    uzivatel* | uzivatelske jmeno | prihlasovaci jmeno | ucet
    anvandar* | personnummer | kundnummer | bruger | brugernavn | brukernavn | bruker
    kayttaja* | tunnus | asiakasnumero
    kullanici* | hesap
    пользовател* | логин | логина | учетная запись | аккаунт | имя входа
    ユーザー | ユーザ | アカウント | 会員番号 | ログインid | お客様番号
    用户名 | 用户 | 账号 | 帐号 | 账户 | 帐户 | 用戶 | 使用者 | 帳號 | 帳戶 | 登录名
    아이디 | 사용자 | 계정
    المستخدم | الحساب | اسم الدخول | שם משתמש | ชื่อผู้ใช้ | користувач* | ім'я користувача | логін | обліковий запис | акаунт | ім'я для входу`,
  email: `
    email | e mail | mail | mail address | emailaddress | mailadres* | emailadres* | courriel | adresse e mail | adresse electronique | correo | correo electronico | indirizzo email | posta elettronica
    poczta | adres e mail | e post | epost | e posta | eposta | sahkoposti* | e postadress
    почт* | электронная почта | имейл | メール | 邮箱 | 电子邮件 | 電子郵件 | 信箱 | 邮件 | 이메일 | 메일 주소 | البريد | אימייל | อีเมล | пошт* | електронна пошта | електронна адреса | імейл`,
  phone: `
    phone | phone number | mobile | mobile number | telephone | tel | cell | msisdn | telefon* | handynummer | handy | mobilnummer | mobiltelefon | rufnummer | telephone portable | numero de telephone | numero de portable
    movil | celular | telefono | cellulare | telemovel | telefone | telefoonnummer | mobiel | komorka | numer telefonu | puhelin* | cep telefonu
    телефон* | номер телефона | 電話 | 携帯 | 手机 | 手機 | 전화번호 | 휴대폰 | 휴대전화 | الهاتف | الجوال | телефон* | номер телефону`,
  password: `
    password | pass word | passwd | pass | pwd | passphrase | passcode | psw | passwort | kennwort | mot de passe | mdp | contrasena | clave | parola | palavra passe | palavra chave | senha | wachtwoord
    haslo | hasla | heslo | hesla | losenord | adgangskode | kodeord | passord | salasana | sifre | sifreniz | пароль | пароля | parole | jelszo | parol*
    パスワード | 暗証番号 | 密码 | 密碼 | 口令 | 비밀번호 | 암호 | كلمة المرور | كلمة السر | الرقم السري | סיסמה | סיסמא | รหัสผ่าน | пароль | пароля | паролі | паролем`,
  confirm: `
    confirm | confirmation | repeat | again | retype | reenter | re enter | verify password | password2 | passwd2 | pwd2 | wiederholen | bestatigen | confirmer | confirmez | repetez | repetir | repita | confirmar | conferma | ripeti
    herhaal | bevestig | powtorz | potwierdz haslo | znovu | potvrd* | upprepa | bekrafta | gentag | vahvista salasana | uudelleen | tekrar | повторите | подтвердите пароль | еще раз
    確認用 | 再入力 | もう一度 | 确认密码 | 再次输入 | 確認密碼 | 확인 비밀번호 | 비밀번호 확인 | 재입력 | تأكيد | підтвердіть пароль | повторіть | ще раз | пароль знову`,
  newer: `
    new password | create password | create a password | choose a password | set password | newpassword | new pass | neues passwort | neues kennwort | nouveau mot de passe | nueva contrasena | nuova password | nova senha | nova palavra passe
    nieuw wachtwoord | nowe haslo | nove heslo | nytt losenord | ny adgangskode | uusi salasana | yeni sifre | новый пароль | 新しいパスワード | 新密码 | 新密碼 | 새 비밀번호 | كلمة مرور جديدة | новий пароль | створіть пароль`,
  code: `
    code | codes | otp | one time | onetime | verification | 2fa | mfa | tfa | two factor | twofactor | second factor | passcode | security code | authcode | auth code | token | pin | totp | tan
    bestatigungscode | sicherheitscode | einmalcode | einmalpasswort | verifizierungscode | prufcode | zwei faktor* | a usage unique | deux facteurs | codigo | verificacion | codice | verifica | dos pasos | dos factores | verificacao | duas etapas
    verificatiecode | beveiligingscode | kod | kodu | kod weryfikacyjny | jednorazow* | overovaci kod | verifieringskod | engangskod* | engangskode | bekraeftelseskode | vahvistuskoodi | koodi | kertakayttokoodi | dogrulama*
    код | кода | подтверждения | одноразов* | コード | ワンタイム | 認証番号 | 验证码 | 驗證碼 | 动态码 | 校验码 | 인증번호 | 인증 코드 | 코드 | رمز | קוד | код | коду | підтвердження | одноразов*`,
  authenticator: `
    authenticator | authenticator app | authentication app | authy | totp | time based | code generator | google authenticator | microsoft authenticator | security app | 2fa app | two factor app | otp app
    authenticator app | authentifizierungs app | authentifikator | application d authentification | aplicacion de autenticacion | autenticador | app di autenticazione | aplicativo autenticador | app autenticador
    todennussovellu* | uwierzytelniajac* | autentiseringsapp* | godkendelsesapp* | authenticatie app | verificatie app | aplikacja uwierzytelniajaca | aplikacji uwierzytelniajacej | overovaci aplikace | autentiseringsapp | godkendelsesapp | todennussovellus | dogrulama uygulamasi | приложени* аутентификац* | аутентификатор*
    認証アプリ | 認証システム アプリ | 身份验证器 | 驗證器 | 验证器应用 | 인증 앱 | تطبيق المصادقة | застосунок автентифікації | застосунку автентифікації | застосунку для автентифікації | автентифікатор*`,
  search: `
    search | query | q | find | suche | suchen | suchbegriff | rechercher | recherche | buscar | busqueda | cerca | ricerca | pesquisar | pesquisa | procurar | busca | zoeken | zoek | szukaj | wyszukaj | hledat | vyhledat | sok | sog | soeg | hae | etsi | haku | ara | arama | поиск | найти
    検索 | 搜索 | 搜寻 | 搜尋 | 검색 | بحث | חיפוש | ค้นหา | пошук | шукати | знайти`,
  newsletter: `
    newsletter | subscribe | subscription | mailing list | stay informed | get updates | stay up to date | latest news | abonnieren | s abonner | abonnez | infolettre | boletin | suscribirse | suscribete | iscriviti alla newsletter | inscreva | assine | nieuwsbrief | abonneer | subskryb* | odebirat | odber novinek
    nyhetsbrev | prenumerera | nyhedsbrev | tilmeld nyhedsbrev | uutiskirje | tilaa | bulten | abone ol | рассылк* | подписат* | подписк* | メルマガ | ニュースレター | 订阅 | 訂閱 | 电子报 | 구독 | 뉴스레터 | اشترك | النشرة | розсилк* | підписат* | підпис*`,
  coupon: `coupon | promo | promo code | voucher | gift card | gutschein* | code promo | cupon | codice sconto | cupom | kortingscode | kod rabatowy | promokod | промокод | クーポン | 优惠码 | 쿠폰 | промокод`,
  address: `
    street | city | town | zip | zip code | zipcode | postal | postal code | postcode | country | state | province | address line | strasse | plz | postleitzahl | ort | land | rue | ville | code postal | pays | calle | ciudad | codigo postal | pais
    via | citta | cap | paese | cidade | cep | straat | woonplaats | ulica | miasto | kod pocztowy | kraj | ulice | mesto | psc | gata | stad | ort | vej | postnummer | katuosoite | postinumero | sehir | posta kodu | город | улица | индекс | 住所 | 郵便番号 | 城市 | 邮编 | 주소 | 우편번호 | المدينة | місто | вулиця | поштовий індекс | країна`,
  card: `card number | credit card | cardnumber | cvv | cvc | iban | expiry | expiration date | kartennummer | kreditkarte | carte bancaire | tarjeta | carta di credito | cartao | creditcard | numer karty | karta | kortnummer | karttinumero | kart numarasi | номер карты | カード番号 | 信用卡 | 카드 번호 | номер картки`,
  person: `
    first name | firstname | fname | last name | lastname | lname | full name | fullname | given name | family name | surname | your name | birth | birthday | date of birth | dob | gender | vorname | nachname | geburtsdatum | prenom | nom de famille | date de naissance
    apellido | apellidos | fecha de nacimiento | cognome | data di nascita | sobrenome | nome completo | data de nascimento | voornaam | achternaam | geboortedatum | imie | nazwisko | data urodzenia | prijmeni | datum narozeni | fornamn | efternamn | fornavn | efternavn | etunimi | sukunimi
    adiniz | soyadi | soyad | dogum tarihi | имя и фамилия | фамилия | дата рождения | 氏名 | お名前 | 生年月日 | 姓名 | 出生日期 | 이름 | 생년월일 | الاسم الأول | تاريخ الميلاد | прізвище | по батькові | дата народження`,
  image_code: `captcha | characters you see | text in the image | letters shown | security image | caractères affiches | texto de la imagen | символы с картинки | код с картинки | 画像認証 | 图形验证码 | 圖形驗證碼 | 자동입력 방지 | kontrollzeichen | zeichen aus dem bild | символи з картинки | код з картинки | символи на зображенні`,
  remember: `
    remember me | remember | rememberme | keep me signed in | keep me logged in | keep signed in | stay signed in | stay logged in | stay connected | persistent | permanent | permanent login | angemeldet bleiben | eingeloggt bleiben | anmeldung merken | merken | dauerhaft
    se souvenir de moi | rester connecte | rester connectee | memoriser | maintenir la connexion | recordarme | recuerdame | recordar | mantener sesion | mantener la sesion | mantenerme conectado | ricordami | resta collegato | rimani connesso | mantieni l accesso
    lembrar | lembrar me | manter sessao | manter me conectado | continuar conectado | permanecer conectado | onthoud mij | onthouden | ingelogd blijven | aangemeld blijven | zapamietaj | nie wylogowuj | pozostan zalogowany
    zapamatovat | zustat prihlasen | neodhlasovat | kom ihag mig | forbli inloggad | husk mig | forbliv logget ind | forbliv logget pa | muista minut | pysy kirjautuneena | beni hatirla | oturumu acik tut | oturumum acik kalsin
    запомнить | оставаться в системе | не выходить | ログイン状態を保持 | ログインしたまま | 記憶する | サインインしたまま | 记住我 | 记住 | 保持登录 | 自动登录 | 記住 | 保持登入 | 로그인 유지 | 로그인 상태 유지 | 자동 로그인 | تذكرني | ابق متصلا | البقاء متصلا | запам'ятати | запам'ятати мене | залишатися в системі | залишатись в системі | не виходити`,
  trust: `
    trust this | trust device | trusted device | trust browser | trusted browser | trust this device | trust this browser | remember this device | remember this browser | remember device | don t ask again | do not ask again | don t ask for codes | don t require | skip this next time | recognize this device | this is my device | save this browser | save device
    diesem gerat vertrauen | gerat vertrauen | diesem browser vertrauen | vertrauenswurdig* | gerat merken | nicht mehr fragen | nicht erneut fragen | faire confiance | appareil de confiance | ne plus demander | confiar en este | dispositivo de confianza | no volver a preguntar | considera attendibile | dispositivo attendibile | non chiedere
    confiar neste | dispositivo confiavel | nao perguntar novamente | vertrouw dit | vertrouwd apparaat | niet meer vragen | zaufaj | zaufane urzadzenie | nie pytaj ponownie | duveryhodn* | duverovat | priste se neptat | lita pa | betrodd enhet | fraga inte igen | stol pa | betroet enhed | sporg ikke igen | luota | luotettu laite | ala kysy
    bu cihaza guven | guvenilir cihaz | tekrar sorma | доверять | доверенное устройство | больше не спрашивать | 不再询问 | このデバイスを信頼 | 信頼する | 次回から表示しない | 信任此设备 | 信任此裝置 | 信任这 | 信任此 | 이 기기 신뢰 | 신뢰할 수 있는 기기 | 다시 묻지 않기 | الوثوق بهذا | هذا الجهاز موثوق | довіряти цьому | довірений пристрій | запам'ятати цей пристрій | більше не запитувати | не запитувати знову`,
  shared_computer: `public computer | shared computer | do not remember | forget this device | offentlicher computer | ordinateur public | ordenador publico | computer pubblico | computador publico | чужой компьютер | 公共电脑 | 공용 컴퓨터 | 共用パソコン | чужий комп'ютер | спільний комп'ютер`,
  terms: `
    i agree | agree to the | terms | terms of service | terms and conditions | privacy policy | ich stimme | ich akzeptiere | agb | datenschutz* | nutzungsbedingungen | j accepte | conditions generales | acepto | terminos | accetto | termini | aceito | termos | ik ga akkoord | voorwaarden | akceptuje | regulamin | souhlasim | podminky
    jag godkanner | villkor | jeg accepterer | vilkar | hyvaksyn | ehdot | kabul ediyorum | kosullar | согласен | принимаю | 利用規約 | 同意する | 我已阅读 | 同意 | 服务条款 | 약관 | 동의 | أوافق | الشروط | погоджуюсь | погоджуюся | приймаю | умови використання | політика конфіденційності`,
  language: `language | lang | locale | sprache | langue | idioma | lingua | taal | jezyk | jazyk | sprak | sprog | kieli | dil | язык | 言語 | 语言 | 語言 | 언어 | اللغة | hl | timezone | time zone | theme | skin | мова | часовий пояс`,
  organization: `
    organization | organisation | company | company id | tenant | workspace | team | domain | site | subdomain | realm | instance | institution | school | firma | firmen* | mandant | unternehmen | organisationseinheit | societe | entreprise | empresa | organizacion | azienda | societa | organizzazione | empresa | bedrijf | organisatie
    firma | organizacja | organizace | spolecnost | foretag | virksomhed | yritys | organisaatio | sirket | kurum | организаци* | компани* | 会社 | 組織 | 企业 | 公司 | 组织 | 組織 | 회사 | 조직 | الشركة | المؤسسة | організаці* | компані*`,
} as const
