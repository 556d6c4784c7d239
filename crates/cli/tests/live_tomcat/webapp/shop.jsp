<%@ page contentType="text/html; charset=UTF-8" %><%
  // A shop in one page: the cart is in the visitor's session, and an order ends the visit.
  Integer cart = (Integer) session.getAttribute("cart");
  int items = cart == null ? 0 : cart;
  String step = "POST".equals(request.getMethod()) ? request.getParameter("step") : null;
  boolean ordered = "order".equals(step);
  if ("put".equals(step)) session.setAttribute("cart", ++items);
  if (ordered) {
    session.invalidate();
    response.setHeader("Tidegate-Pass", "revoke");
  }
  StringBuilder fields = new StringBuilder();
  for (String name : java.util.Collections.list(request.getHeaderNames()))
    fields.append(name).append(": ").append(request.getHeader(name)).append('\n');
%><!doctype html>
<html lang="en">
<title>Tomcat's shop</title>
<h1><%= ordered ? "Thank you" : "The shop" %></h1>
<p id="cart"><%= items %></p>
<% if (!ordered) { %>
<form method="post"><button id="put" name="step" value="put">Put into the cart</button>
<button id="order" name="step" value="order">Order</button></form>
<% } %>
<pre id="fields"><%= fields.toString().replace("&", "&amp;").replace("<", "&lt;") %></pre>
</html>
