use super::schedule;

#[test]
fn a_schedule_is_told_in_plain_english() {
    for (expression, text) in [
        ("* * * * * *", "Every second"),
        ("*/15 * * * * *", "Every 15 seconds"),
        ("30 * * * * *", "At second 30 of every minute"),
        ("0,30 */5 * * * *", "Every 30 seconds, in every 5th minute from 0 to 55"),
        ("* 5 9 * * *", "Every second, in minute 5, from 09:00 to 09:59"),
        ("0 * * * * *", "Every minute"),
        ("0 */5 * * * *", "Every 5 minutes"),
        ("0 */7 * * * *", "At every 7th minute from 0 to 56 of every hour"),
        ("0 15 * * * *", "At minute 15 of every hour"),
        ("0 5,10-20 * * * *", "At minutes 5 and 10 to 20 of every hour"),
        ("0 */5 9-17 * * 1-5", "Every 5 minutes, from 09:00 to 17:59, Monday to Friday"),
        ("0 0 * * * *", "Every hour, on the hour"),
        ("@hourly", "Every hour, on the hour"),
        ("0 0 */2 * * *", "Every 2 hours, on the hour"),
        ("0 0 9-17 * * *", "On the hour, from 09:00 to 17:00"),
        ("0 0 1,5,7,8,20 * * *", "On the hour, in hours 1, 5, 7, 8 and 20"),
        ("0 0 9 * * 1-5", "At 09:00:00, Monday to Friday"),
        ("@daily", "At 00:00:00, every day"),
        ("@weekly", "At 00:00:00, on Sunday"),
        ("@monthly", "At 00:00:00, on day 1 of the month"),
        ("@yearly", "At 00:00:00, on day 1 of the month, in January"),
        ("0 0,30 9,17 * * *", "At 09:00:00, 09:30:00, 17:00:00 and 17:30:00, every day"),
        ("0 0 0 13 * 5", "At 00:00:00, on day 13 of the month or on Friday"),
        (
            "0 0 0 1-7,15 * mon,wed",
            "At 00:00:00, on days 1 to 7 and 15 of the month or on Monday and Wednesday",
        ),
        ("0 0 0 */2 * *", "At 00:00:00, on every 2nd day from 1 to 31 of the month"),
        ("0 0 0 1-31 * 5", "At 00:00:00, every day"),
        ("0 0 0 * * 0-6", "At 00:00:00, every day"),
        ("0 0 0 * 6-8 *", "At 00:00:00, every day, from June to August"),
        ("0 * * * 1,4 0,6", "Every minute, on Sunday and Saturday, in January and April"),
    ] {
        assert_eq!(schedule(expression).describe(), text, "{expression}");
    }
}
