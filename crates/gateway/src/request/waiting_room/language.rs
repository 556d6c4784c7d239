//! The languages of the page for those who wait, chosen by `Accept-Language` (RFC 9110, section 12.5.4).

use http::HeaderValue;

/// What the page says in one language.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Language {
    /// Its tag (BCP 47).
    pub(super) tag: &'static str,
    /// Direction of writing, as HTML has it.
    pub(super) direction: &'static str,
    pub(super) title: &'static str,
    pub(super) lead: &'static str,
    pub(super) entry_at: &'static str,
    /// The same of a lot that is not drawn yet.
    pub(super) drawn_at: &'static str,
    /// In place of a time.
    pub(super) unknown: &'static str,
    pub(super) left: &'static str,
    pub(super) ahead: &'static str,
    pub(super) progress: &'static str,
    pub(super) keep: &'static str,
    pub(super) enter: &'static str,
    /// Who was let in, and to whose browser no other page came.
    pub(super) entered: &'static str,
    pub(super) saved: &'static str,
    pub(super) missed: &'static str,
    pub(super) form_kept: &'static str,
    /// The same where no script runs to send it.
    pub(super) form_by_hand: &'static str,
    pub(super) form_send: &'static str,
    pub(super) form_files: &'static str,
    pub(super) form_lost: &'static str,
    pub(super) full_title: &'static str,
    pub(super) full: &'static str,
    pub(super) closed_title: &'static str,
    pub(super) closed: &'static str,
}

/// Ranges of the header that are looked at; the rest of a longer list is not.
const RANGES_MAX: usize = 32;

impl Language {
    /// The language a client likes best of those there are; English for who likes none of them.
    pub(super) fn negotiate<'a>(accept: impl Iterator<Item = &'a HeaderValue>) -> &'static Self {
        let mut best: Option<(u16, &'static Self)> = None;
        for range in accept.flat_map(|value| value.as_bytes().split(|byte| *byte == b',')).take(RANGES_MAX) {
            let Some((tag, quality)) = range_of(range) else { continue };
            // Of equal ones the first wins, as most clients mean it.
            if quality > 0
                && best.is_none_or(|(other, _)| quality > other)
                && let Some(language) = Self::of_range(tag)
            {
                best = Some((quality, language));
            }
        }
        best.map_or(&LANGUAGES[0], |(_, language)| language)
    }

    /// A range is of a language whatever region or script it names: `de-AT` is German.
    fn of_range(range: &[u8]) -> Option<&'static Self> {
        let primary = range.split(|byte| *byte == b'-').next()?;
        LANGUAGES.iter().find(|language| primary.eq_ignore_ascii_case(language.tag.as_bytes()))
    }
}

/// A language range, and its quality in thousandths.
fn range_of(range: &[u8]) -> Option<(&[u8], u16)> {
    let mut parts = range.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
    let tag = parts.next().filter(|tag| !tag.is_empty())?;
    let quality = match parts.next() {
        None => 1000,
        Some([b'q' | b'Q', b'=', value @ ..]) => {
            let value = std::str::from_utf8(value).ok()?.parse::<f32>().ok()?;
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 1000")]
            let thousandths = (value.clamp(0.0, 1.0) * 1000.0) as u16;
            thousandths
        }
        Some(_) => return None,
    };
    Some((tag, quality))
}

/// Every language there is, the one for all others first.
pub(super) static LANGUAGES: [Language; 7] = [
    Language {
        tag: "en",
        direction: "ltr",
        title: "You are in line",
        lead: "Many people are here right now. Your place is kept, and this page takes you in by itself.",
        entry_at: "Your turn",
        drawn_at: "Places are given",
        unknown: "not known yet",
        left: "Time left",
        ahead: "People ahead of you",
        progress: "Progress of your wait",
        keep: "You may reload this page, or close it and come back at that time: your place stays yours.",
        enter: "Enter now",
        entered: "You have been let in",
        saved: "If you asked for a file, your browser has received it.",
        missed: "We are sorry: it takes longer than we promised. You now go before everybody who comes after you.",
        form_kept: "What you entered is kept in this page and is sent when it is your turn.",
        form_by_hand: "Your browser runs no scripts here: please press “Send now” yourself at that time.",
        form_send: "Send now",
        form_files: "Files could not be kept. Please choose them again:",
        form_lost: "What you sent could not be kept. Please send it again once you are in.",
        full_title: "The line is full",
        full: "More people are waiting than can be given a time. Please come back a little later.",
        closed_title: "Closed for now",
        closed: "Nobody is let in at the moment. Please come back later.",
    },
    Language {
        tag: "es",
        direction: "ltr",
        title: "Está en la cola",
        lead: "Hay muchas personas en este momento. Su lugar está reservado y esta página le dará paso automáticamente.",
        entry_at: "Hora de su turno",
        drawn_at: "Asignación de los turnos",
        unknown: "aún no se sabe",
        left: "Tiempo restante",
        ahead: "Personas antes que usted",
        progress: "Progreso de la espera",
        keep: "Puede recargar esta página, o cerrarla y volver a esa hora: su lugar sigue siendo suyo.",
        enter: "Entrar ahora",
        entered: "Ya puede pasar",
        saved: "Si pidió un archivo, su navegador ya lo ha recibido.",
        missed: "Lo sentimos: tarda más de lo que prometimos. Ahora pasa antes que todos los que lleguen después.",
        form_kept: "Lo que ha escrito se guarda en esta página y se enviará cuando llegue su turno.",
        form_by_hand: "Su navegador no ejecuta scripts aquí: pulse «Enviar ahora» a esa hora, por favor.",
        form_send: "Enviar ahora",
        form_files: "Los archivos no se pudieron guardar. Elíjalos de nuevo, por favor:",
        form_lost: "No se pudo guardar lo que envió. Envíelo de nuevo cuando haya entrado, por favor.",
        full_title: "La cola está llena",
        full: "Esperan más personas de las que podemos citar. Vuelva un poco más tarde, por favor.",
        closed_title: "Cerrado por ahora",
        closed: "En este momento no se deja entrar a nadie. Vuelva más tarde, por favor.",
    },
    Language {
        tag: "de",
        direction: "ltr",
        title: "Sie stehen in der Reihe",
        lead: "Gerade sind sehr viele Menschen hier. Ihr Platz ist Ihnen sicher; diese Seite lässt Sie von selbst ein.",
        entry_at: "Ihre Einlasszeit",
        drawn_at: "Vergabe der Plätze",
        unknown: "noch nicht bekannt",
        left: "Verbleibende Zeit",
        ahead: "Personen vor Ihnen",
        progress: "Fortschritt der Wartezeit",
        keep: "Sie können die Seite neu laden, oder sie schließen und zu dieser Zeit wiederkommen: Ihr Platz bleibt Ihnen.",
        enter: "Jetzt eintreten",
        entered: "Sie sind eingelassen",
        saved: "Wenn Sie eine Datei angefordert haben, hat Ihr Browser sie erhalten.",
        missed: "Es tut uns leid: Es dauert länger als versprochen. Sie kommen nun vor allen an die Reihe, die nach Ihnen kommen.",
        form_kept: "Ihre Eingaben sind in dieser Seite aufgehoben und werden gesendet, sobald Sie an der Reihe sind.",
        form_by_hand: "Ihr Browser führt hier keine Skripte aus: Bitte drücken Sie zu dieser Zeit selbst auf „Jetzt senden“.",
        form_send: "Jetzt senden",
        form_files: "Dateien konnten nicht aufgehoben werden. Bitte wählen Sie sie noch einmal aus:",
        form_lost: "Ihre Eingaben konnten nicht aufgehoben werden. Bitte senden Sie sie noch einmal, sobald Sie eingelassen sind.",
        full_title: "Die Reihe ist voll",
        full: "Es warten mehr Menschen, als wir Zeiten vergeben können. Bitte kommen Sie etwas später wieder.",
        closed_title: "Zurzeit geschlossen",
        closed: "Im Augenblick wird niemand eingelassen. Bitte kommen Sie später wieder.",
    },
    Language {
        tag: "fr",
        direction: "ltr",
        title: "Vous êtes dans la file",
        lead: "Il y a beaucoup de monde en ce moment. Votre place est gardée et cette page vous fera entrer d’elle-même.",
        entry_at: "Heure de votre tour",
        drawn_at: "Attribution des tours",
        unknown: "pas encore connue",
        left: "Temps restant",
        ahead: "Personnes avant vous",
        progress: "Avancement de l’attente",
        keep: "Vous pouvez recharger cette page, ou la fermer et revenir à cette heure\u{a0}: votre place reste la vôtre.",
        enter: "Entrer maintenant",
        entered: "Votre tour est venu",
        saved: "Si vous avez demandé un fichier, votre navigateur l’a reçu.",
        missed: "Nous sommes désolés\u{a0}: c’est plus long que promis. Vous passez désormais avant tous ceux qui arriveront après vous.",
        form_kept: "Votre saisie est gardée dans cette page et sera envoyée quand votre tour viendra.",
        form_by_hand: "Votre navigateur n’exécute pas de scripts ici\u{a0}: veuillez appuyer vous-même sur «\u{a0}Envoyer maintenant\u{a0}» à cette heure.",
        form_send: "Envoyer maintenant",
        form_files: "Les fichiers n’ont pas pu être gardés. Veuillez les choisir de nouveau\u{a0}:",
        form_lost: "Votre saisie n’a pas pu être gardée. Veuillez l’envoyer de nouveau après votre entrée.",
        full_title: "La file est pleine",
        full: "Trop de personnes attendent pour que nous puissions vous donner une heure. Veuillez revenir un peu plus tard.",
        closed_title: "Fermé pour le moment",
        closed: "Personne n’entre pour l’instant. Veuillez revenir plus tard.",
    },
    Language {
        tag: "zh",
        direction: "ltr",
        title: "您正在排队",
        lead: "现在访问的人很多。您的位置已为您保留，到时本页面会自动带您进入。",
        entry_at: "轮到您的时间",
        drawn_at: "分配名次的时间",
        unknown: "尚未确定",
        left: "剩余时间",
        ahead: "您前面的人数",
        progress: "等待进度",
        keep: "您可以刷新本页面，也可以关闭后在该时间回来：您的位置不会丢失。",
        enter: "现在进入",
        entered: "您已获准进入",
        saved: "如果您请求的是文件，您的浏览器已经收到。",
        missed: "抱歉，等待时间比我们承诺的更长。您现在排在所有后来者之前。",
        form_kept: "您填写的内容保存在本页面中，轮到您时会自动提交。",
        form_by_hand: "您的浏览器未在此运行脚本：请在该时间自行点击“现在提交”。",
        form_send: "现在提交",
        form_files: "文件未能保存。请重新选择：",
        form_lost: "您提交的内容未能保存。请在进入后重新提交。",
        full_title: "队伍已满",
        full: "等待的人数已超过我们能安排的人数。请稍后再来。",
        closed_title: "暂时关闭",
        closed: "目前不允许进入。请稍后再来。",
    },
    Language {
        tag: "hi",
        direction: "ltr",
        title: "आप कतार में हैं",
        lead: "इस समय बहुत से लोग यहाँ हैं। आपकी जगह सुरक्षित है और यह पृष्ठ आपको अपने-आप अंदर ले जाएगा।",
        entry_at: "आपकी बारी का समय",
        drawn_at: "बारी तय होने का समय",
        unknown: "अभी ज्ञात नहीं",
        left: "शेष समय",
        ahead: "आपसे आगे के लोग",
        progress: "प्रतीक्षा की प्रगति",
        keep: "आप इस पृष्ठ को फिर से लोड कर सकते हैं, या बंद करके उसी समय लौट सकते हैं: आपकी जगह आपकी ही रहेगी।",
        enter: "अभी प्रवेश करें",
        entered: "आपको प्रवेश मिल गया है",
        saved: "यदि आपने कोई फ़ाइल माँगी थी, तो वह आपके ब्राउज़र को मिल गई है।",
        missed: "क्षमा करें: हमारे वादे से अधिक समय लग रहा है। अब आप बाद में आने वाले सभी लोगों से पहले हैं।",
        form_kept: "आपने जो भरा है वह इस पृष्ठ में सुरक्षित है और आपकी बारी आने पर भेजा जाएगा।",
        form_by_hand: "आपका ब्राउज़र यहाँ स्क्रिप्ट नहीं चलाता: कृपया उस समय स्वयं “अभी भेजें” दबाएँ।",
        form_send: "अभी भेजें",
        form_files: "फ़ाइलें सुरक्षित नहीं रखी जा सकीं। कृपया उन्हें फिर से चुनें:",
        form_lost: "आपने जो भेजा वह सुरक्षित नहीं रखा जा सका। कृपया अंदर आने के बाद फिर से भेजें।",
        full_title: "कतार भर गई है",
        full: "जितने लोगों को समय दिया जा सकता है उससे अधिक लोग प्रतीक्षा कर रहे हैं। कृपया थोड़ी देर बाद आएँ।",
        closed_title: "अभी बंद है",
        closed: "इस समय किसी को प्रवेश नहीं दिया जा रहा है। कृपया बाद में आएँ।",
    },
    Language {
        tag: "ar",
        direction: "rtl",
        title: "أنت في الطابور",
        lead: "يوجد عدد كبير من الزوار الآن. مكانك محفوظ، وستُدخلك هذه الصفحة تلقائيًا.",
        entry_at: "موعد دورك",
        drawn_at: "موعد توزيع الأدوار",
        unknown: "غير معروف بعد",
        left: "الوقت المتبقي",
        ahead: "عدد من هم قبلك",
        progress: "تقدّم الانتظار",
        keep: "يمكنك إعادة تحميل الصفحة، أو إغلاقها والعودة في ذلك الوقت: سيبقى مكانك لك.",
        enter: "ادخل الآن",
        entered: "تم السماح لك بالدخول",
        saved: "إذا كنت قد طلبت ملفًا فقد استلمه متصفحك.",
        missed: "نعتذر: يستغرق الأمر وقتًا أطول مما وعدنا به. دورك الآن قبل كل من يأتي بعدك.",
        form_kept: "ما أدخلته محفوظ في هذه الصفحة وسيُرسل عندما يحين دورك.",
        form_by_hand: "متصفحك لا يشغّل البرامج النصية هنا: يُرجى الضغط بنفسك على «أرسل الآن» في ذلك الوقت.",
        form_send: "أرسل الآن",
        form_files: "تعذّر حفظ الملفات. يُرجى اختيارها مرة أخرى:",
        form_lost: "تعذّر حفظ ما أرسلته. يُرجى إرساله مرة أخرى بعد دخولك.",
        full_title: "الطابور ممتلئ",
        full: "عدد المنتظرين أكبر مما يمكننا تحديد وقت له. يُرجى العودة بعد قليل.",
        closed_title: "مغلق حاليًا",
        closed: "لا يُسمح بالدخول في هذه اللحظة. يُرجى العودة لاحقًا.",
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    fn tag(accept: &str) -> &'static str {
        Language::negotiate(HeaderValue::from_bytes(accept.as_bytes()).iter()).tag
    }

    #[test]
    fn visitors_get_the_language_they_like_best() {
        for (accept, expected) in [
            ("", "en"),
            ("*", "en"),
            ("nl", "en"),
            ("de", "de"),
            ("de-AT,de;q=0.9,en;q=0.8", "de"),
            ("en;q=0.5, fr;q=0.7", "fr"),
            ("nl,AR-EG;q=0.3,zh-Hant-TW;q=0.2", "ar"),
            ("zh-Hans-CN", "zh"),
            ("es;q=0, hi;q=0.001", "hi"),
            ("es;level=1, fr;q=x, de;q=0.1", "de"),
            ("fr, es", "fr"),
        ] {
            assert_eq!(tag(accept), expected, "{accept}");
        }
        assert_eq!(Language::negotiate(std::iter::empty()).tag, "en");
    }

    #[test]
    fn any_bytes_give_a_language() {
        bolero::check!().for_each(|bytes: &[u8]| {
            if let Ok(value) = HeaderValue::from_bytes(bytes) {
                let language = Language::negotiate([&value].into_iter());
                assert!(LANGUAGES.contains(language));
            }
        });
    }
}
