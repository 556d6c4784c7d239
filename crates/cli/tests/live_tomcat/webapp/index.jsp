<%@ page contentType="text/html; charset=UTF-8" %><!doctype html>
<html lang="en">
<title>Tomcat behind a gateway</title>
<h1>Tomcat says hello</h1>
<p>Reached as <%= request.getScheme() %>://<%= request.getHeader("host") %> by
<%= request.getHeader("x-forwarded-proto") %>.
<p id="script">no script has run</p>
<form method="post" action="form"><input name="text" value="Grüße &amp; mehr"><button>Send</button></form>
<script>document.getElementById("script").textContent = "script ran: " + (6 * 7);</script>
</html>
